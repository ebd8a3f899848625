import { mul, offset } from '../../graph/ops/elementwise.ts';
import { pad, permute, reshape, sliceDim, allDims, sum } from '../../graph/ops/movement.ts';
import { widened } from '../../graph/ops/precision.ts';
import { keepDims } from '../../graph/ops/reduce.ts';
import type { Node } from '../../graph/node.ts';
import { elementCount, sizeAt } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import {
  counted,
  type Dims,
  dimsOf,
  oneDim,
  type ReduceOptions,
  reduceRules,
} from '../reductions.ts';

// Products have no op of their own. Pairs are multiplied, then pairs of the products, and so on. The gradient is then
// also right if elements are 0, as no step divides by an element.

/** The product. For integers and bools it is i32, and wraps around. Shape: N -> N without dims. */
export function prod(x: Node, dims: Dims, options: ReduceOptions = {}): Node {
  checkOptions('prod', options, reduceRules);
  const wide = widened(counted(x));
  const list = dimsOf('prod', wide, dims);
  const kept = allDims(wide).filter((dim) => !list.includes(dim));
  const last = kept.length;
  const order = [...kept, ...list];
  const isInOrder = order.every((dim, at) => dim === at);
  const keptShape = kept.map((dim) => sizeAt(wide.shape, dim));
  const count = elementCount(list.map((dim) => sizeAt(wide.shape, dim)));
  let rows = reshape(isInOrder ? wide : permute(wide, order), [...keptShape, count]);
  for (let size = count; size > 1; size = Math.ceil(size / 2)) {
    const even = size % 2 === 0 ? rows : padded(rows, last, [0, 1]);
    const half = Math.ceil(size / 2);
    rows = mul(sliceDim(even, last, 0, half), sliceDim(even, last, half, 2 * half));
  }
  const product = count === 0 ? offset(sum(rows, [last]), 1) : reshape(rows, keptShape);
  return options.keepDim === true ? keepDims(product, x.shape, list) : product;
}

/** Inclusive running products. For integers and bools they are i32, and wrap around. Shape: N -> N. */
export function cumProd(x: Node, dim: number): Node {
  const d = oneDim('cumProd', x, dim);
  let products = widened(counted(x));
  if (d === undefined) return products;
  const size = sizeAt(x.shape, d);
  // Each element holds the product of the last `reach` elements (Hillis and Steele 1986).
  for (let reach = 1; reach < size; reach *= 2) {
    const earlier = padded(sliceDim(products, d, 0, size - reach), d, [reach, 0]);
    products = mul(products, earlier);
  }
  return products;
}

function padded(x: Node, dim: number, [before, after]: readonly [number, number]): Node {
  const at = (count: number): number[] => x.shape.map((_, d) => (d === dim ? count : 0));
  return pad(x, at(before), at(after), 1);
}

import * as elementwise from '../graph/build/elementwise.ts';
import { matmul } from '../graph/build/contract.ts';
import { gather, indexAdd, indexSelect, scatterAdd } from '../graph/build/index-ops.ts';
import { constant, constantLike, iota } from '../graph/build/leaf.ts';
import { expandTo, pad, permute, reshape, sliceDim } from '../graph/build/movement.ts';
import { layerNorm, logSoftmax, rmsNorm, softmax } from '../graph/build/normalize.ts';
import * as reduce from '../graph/build/reduce.ts';
import { createNode, noGrad, none, type Node } from '../graph/node.ts';
import { elementCount, formatShape, normalizeDim, sizeAt } from '../shape.ts';
import type { DType, Shape } from '../spec/dtype.ts';
import { ShapeError } from '../spec/errors.ts';
import { requireDTypeName } from '../dtype-name.ts';
import {
  requireApproximation,
  requireElementAt,
  requireList,
  requireOperand,
  requirePadding,
  requirePartSize,
  requireTensors,
} from './check-arguments.ts';
import { TensorHandle } from './handle.ts';
import { checkOptions } from '../spec/check-options.ts';
import * as option from '../spec/option-rules.ts';
import type { OptionRules } from '../spec/option-rules.ts';

/** A tensor, or a number that takes the other operand's dtype. */
export type Operand = Tensor | number;

export interface ReduceOptions {
  /** Keep reduced dims with size 1. */
  readonly keepDim?: boolean;
}

export interface VarianceOptions extends ReduceOptions {
  /** What is taken from the number of elements before the division by it; default 1. */
  readonly correction?: number;
}

/** Of the last two dims, before the product. */
export interface MatmulOptions {
  readonly transposeA?: boolean;
  readonly transposeB?: boolean;
}

const reduceRules: OptionRules<ReduceOptions> = { keepDim: option.flag };
const varianceRules: OptionRules<VarianceOptions> = { ...reduceRules, correction: option.number };
const matmulRules: OptionRules<MatmulOptions> = {
  transposeA: option.flag,
  transposeB: option.flag,
};

/**
 * A value of the lazy graph. Methods build graph and return at once; `data()`, `item()`,
 * `realize()` and an optimizer's step compute. Letters in shapes: N, N' any shape; binary methods broadcast.
 */
export class Tensor extends TensorHandle {
  /** What this rank keeps and updates of it: the tensor itself, where ranks do not share it out. */
  get part(): Tensor {
    return this;
  }

  /** The whole of something that lies as `part` does: itself, where ranks do not share it out. */
  wholeOf(part: Tensor): Tensor {
    return part;
  }

  /** The gradient after backward(); null before and after zeroGrad(). */
  get grad(): Tensor | null {
    const node = this.gradientNode;
    return node === null ? null : new Tensor(node);
  }

  // Elementwise. Shape: N, N' -> broadcast(N, N').
  add(other: Operand): Tensor {
    return this.#binary(elementwise.add, other);
  }
  sub(other: Operand): Tensor {
    return this.#binary(elementwise.sub, other);
  }
  mul(other: Operand): Tensor {
    return this.#binary(elementwise.mul, other);
  }
  /** i32 truncates towards zero. */
  div(other: Operand): Tensor {
    return this.#binary(elementwise.div, other);
  }
  pow(exponent: Operand): Tensor {
    return this.#binary(elementwise.pow, exponent);
  }
  maximum(other: Operand): Tensor {
    return this.#binary(elementwise.maximum, other);
  }
  minimum(other: Operand): Tensor {
    return this.#binary(elementwise.minimum, other);
  }
  eq(other: Operand): Tensor {
    return this.#binary(elementwise.equal, other);
  }
  ne(other: Operand): Tensor {
    return this.eq(other).logicalNot();
  }
  lt(other: Operand): Tensor {
    return this.#binary(elementwise.less, other);
  }
  le(other: Operand): Tensor {
    return this.#binary(elementwise.lessEqual, other);
  }
  gt(other: Operand): Tensor {
    return new Tensor(elementwise.less(this.#operand(other), this.node));
  }
  ge(other: Operand): Tensor {
    return new Tensor(elementwise.lessEqual(this.#operand(other), this.node));
  }
  logicalAnd(other: Tensor): Tensor {
    return this.#binary(elementwise.logicalAnd, other);
  }
  logicalOr(other: Tensor): Tensor {
    return this.#binary(elementwise.logicalOr, other);
  }
  /** This tensor is the condition. */
  where(a: Operand, b: Operand): Tensor {
    const dtype = typeof a !== 'number' ? a.dtype : typeof b !== 'number' ? b.dtype : 'f32';
    const branch = (x: Operand): Node => (typeof x === 'number' ? constant(x, [], dtype) : x.node);
    return new Tensor(elementwise.where(this.node, branch(a), branch(b)));
  }

  // Elementwise. Shape: N -> N.
  neg(): Tensor {
    return new Tensor(elementwise.neg(this.node));
  }
  abs(): Tensor {
    return new Tensor(elementwise.abs(this.node));
  }
  sign(): Tensor {
    return new Tensor(elementwise.sign(this.node));
  }
  exp(): Tensor {
    return new Tensor(elementwise.exp(this.node));
  }
  log(): Tensor {
    return new Tensor(elementwise.log(this.node));
  }
  sqrt(): Tensor {
    return new Tensor(elementwise.sqrt(this.node));
  }
  rsqrt(): Tensor {
    return new Tensor(elementwise.div(constantLike(this.node, 1), elementwise.sqrt(this.node)));
  }
  sin(): Tensor {
    return new Tensor(elementwise.sin(this.node));
  }
  cos(): Tensor {
    return new Tensor(elementwise.cos(this.node));
  }
  tanh(): Tensor {
    return new Tensor(elementwise.tanh(this.node));
  }
  erf(): Tensor {
    return new Tensor(elementwise.erf(this.node));
  }
  floor(): Tensor {
    return new Tensor(elementwise.floor(this.node));
  }
  ceil(): Tensor {
    return new Tensor(elementwise.ceil(this.node));
  }
  square(): Tensor {
    return new Tensor(elementwise.square(this.node));
  }
  sigmoid(): Tensor {
    return new Tensor(elementwise.sigmoid(this.node));
  }
  relu(): Tensor {
    return new Tensor(elementwise.relu(this.node));
  }
  gelu(approximate: 'none' | 'tanh' = 'none'): Tensor {
    requireApproximation('gelu', approximate);
    return new Tensor(elementwise.gelu(this.node, approximate));
  }
  silu(): Tensor {
    return new Tensor(elementwise.silu(this.node));
  }
  logicalNot(): Tensor {
    return new Tensor(elementwise.logicalNot(this.node));
  }
  clamp(low: number, high: number): Tensor {
    return this.maximum(low).minimum(high);
  }
  to(dtype: DType): Tensor {
    requireDTypeName('to()', dtype);
    return new Tensor(elementwise.cast(this.node, dtype));
  }
  /** The same values, outside the gradient. */
  detach(): Tensor {
    return new Tensor(noGrad(() => createNode('detach', none, [this.node])));
  }

  // Reductions over `dims` (all when absent). Shape: N -> N without dims.
  sum(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return this.#reduce('sum', reduce.sum, dims, options);
  }
  mean(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return this.#reduce('mean', reduce.mean, dims, options);
  }
  /** Equal maxima share the gradient, as torch.amax. */
  max(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return this.#reduce('max', reduce.max, dims, options);
  }
  min(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return this.#reduce('min', reduce.min, dims, options);
  }
  /** Divides by n - correction, as torch.var. */
  variance(dims?: number | readonly number[], options: VarianceOptions = {}): Tensor {
    checkOptions('variance', options, varianceRules);
    const list = this.#dims('variance', dims);
    const count = elementCount(list.map((dim) => sizeAt(this.shape, dim)));
    const centered = this.sub(this.mean(list, { keepDim: true }));
    return centered
      .square()
      .sum(list, { keepDim: options.keepDim === true })
      .div(Math.max(0, count - (options.correction ?? 1)));
  }
  /** i32 index of the first maximum. */
  argMax(dim: number, options: ReduceOptions = {}): Tensor {
    checkOptions('argMax', options, reduceRules);
    const d = normalizeDim('argMax', dim, this.ndim);
    const result = reduce.argMax(this.node, d);
    return new Tensor(options.keepDim === true ? reduce.keepDims(result, this.shape, [d]) : result);
  }
  cumsum(dim: number): Tensor {
    return new Tensor(reduce.cumsum(this.node, normalizeDim('cumsum', dim, this.ndim)));
  }
  /** Shape: N -> N. */
  softmax(dim = -1): Tensor {
    return this.#alongLast('softmax', dim, softmax);
  }
  /** Shape: N -> N. */
  logSoftmax(dim = -1): Tensor {
    return this.#alongLast('logSoftmax', dim, logSoftmax);
  }
  /** Shape: this [.., D], weight [D], bias [D] -> [.., D]. */
  layerNorm(weight: Tensor, bias: Tensor, eps = 1e-5): Tensor {
    requireTensors('layerNorm', { weight, bias });
    return new Tensor(layerNorm(this.node, weight.node, bias.node, eps));
  }
  /** Shape: this [.., D], weight [D] -> [.., D]. */
  rmsNorm(weight: Tensor, eps = 1e-6): Tensor {
    requireTensors('rmsNorm', { weight });
    return new Tensor(rmsNorm(this.node, weight.node, eps));
  }

  // Movement.
  /** One size may be -1. */
  reshape(shape: Shape): Tensor {
    requireList('reshape', 'sizes', shape);
    return new Tensor(reshape(this.node, inferSize(this.shape, shape)));
  }
  /** Merges the dims from start to end. */
  flatten(startDim = 0, endDim = -1): Tensor {
    if (this.ndim === 0) return this.reshape([1]);
    const start = normalizeDim('flatten', startDim, this.ndim);
    const end = normalizeDim('flatten', endDim, this.ndim);
    const merged = elementCount(this.shape.slice(start, end + 1));
    return this.reshape([...this.shape.slice(0, start), merged, ...this.shape.slice(end + 1)]);
  }
  permute(order: readonly number[]): Tensor {
    requireList('permute', 'dims', order);
    const dims = order.map((dim) => normalizeDim('permute', dim, this.ndim));
    if (new Set(dims).size !== this.ndim) {
      throw new ShapeError(
        {
          asked: `permute of shape ${formatShape(this.shape)} by [${order.join(', ')}]`,
          found: `${new Set(dims).size} different dims of ${this.ndim}`,
          todo: 'Name each dim once',
        },
        { order },
      );
    }
    return new Tensor(permute(this.node, dims));
  }
  transpose(dimA: number, dimB: number): Tensor {
    const order = this.shape.map((_, dim) => dim);
    const a = normalizeDim('transpose', dimA, this.ndim);
    const b = normalizeDim('transpose', dimB, this.ndim);
    order[a] = b;
    order[b] = a;
    return new Tensor(permute(this.node, order));
  }
  expand(shape: Shape): Tensor {
    requireList('expand', 'sizes', shape);
    return new Tensor(expandTo(this.node, shape));
  }
  unsqueeze(dim: number): Tensor {
    const d = normalizeDim('unsqueeze', dim, this.ndim + 1);
    return this.reshape([...this.shape.slice(0, d), 1, ...this.shape.slice(d)]);
  }
  squeeze(dim: number): Tensor {
    const d = normalizeDim('squeeze', dim, this.ndim);
    return this.shape[d] === 1 ? this.reshape(this.shape.filter((_, i) => i !== d)) : this;
  }
  /** Elements start to stop of a dim; negative ends count from the end. */
  slice(dim: number, start: number, stop?: number, step = 1): Tensor {
    const d = normalizeDim('slice', dim, this.ndim);
    const size = sizeAt(this.shape, d);
    const clampEnd = (end: number): number =>
      Math.min(size, Math.max(0, end < 0 ? end + size : end));
    const first = clampEnd(start);
    return new Tensor(sliceDim(this.node, d, first, Math.max(first, clampEnd(stop ?? size)), step));
  }
  /** One element of a dim, which disappears. */
  select(dim: number, index: number): Tensor {
    const d = normalizeDim('select', dim, this.ndim);
    const size = sizeAt(this.shape, d);
    const i = requireElementAt(this.shape, dim, index, size);
    return this.slice(d, i, i + 1).reshape(this.shape.filter((_, at) => at !== d));
  }
  /** Parts of equal size, the last may be smaller, as torch.split. */
  split(size: number, dim = 0): Tensor[] {
    requirePartSize(size);
    const total = sizeAt(this.shape, normalizeDim('split', dim, this.ndim));
    return Array.from({ length: Math.max(1, Math.ceil(total / size)) }, (_, i) =>
      this.slice(dim, i * size, (i + 1) * size),
    );
  }
  pad(before: readonly number[], after: readonly number[], value = 0): Tensor {
    requirePadding(this.shape, { before, after });
    return new Tensor(pad(this.node, before, after, value));
  }

  // Contractions and indexing.
  /** Batch dims broadcast; vectors as torch.matmul. Shape: this [.., M, K], other [.., K, N] -> [.., M, N]. */
  matmul(other: Tensor, options: MatmulOptions = {}): Tensor {
    requireTensors('matmul', { other });
    checkOptions('matmul', options, matmulRules);
    if (this.ndim === 1 && other.ndim === 1) return this.mul(other).sum();
    if (this.ndim === 1) return this.unsqueeze(0).matmul(other, options).squeeze(-2);
    if (other.ndim === 1) return this.matmul(other.unsqueeze(1), options).squeeze(-1);
    return new Tensor(
      matmul(this.node, other.node, options.transposeA ?? false, options.transposeB ?? false),
    );
  }
  /** torch.gather. Shape: this N, index i32 N' -> N'. */
  gather(dim: number, index: Tensor): Tensor {
    requireTensors('gather', { index });
    return new Tensor(gather(this.node, normalizeDim('gather', dim, this.ndim), index.node));
  }
  /** torch.scatter_add. Shape: this N, index i32 N', source N' -> N. */
  scatterAdd(dim: number, index: Tensor, source: Tensor): Tensor {
    requireTensors('scatterAdd', { index, source });
    return new Tensor(
      scatterAdd(this.node, normalizeDim('scatterAdd', dim, this.ndim), index.node, source.node),
    );
  }
  /** torch.index_select. Shape: this [.., D, ..], index i32 [I] -> [.., I, ..]. */
  indexSelect(dim: number, index: Tensor): Tensor {
    requireTensors('indexSelect', { index });
    return new Tensor(
      indexSelect(this.node, normalizeDim('indexSelect', dim, this.ndim), index.node),
    );
  }
  /** torch.index_add. Shape: this [.., D, ..], index i32 [I], source [.., I, ..] -> [.., D, ..]. */
  indexAdd(dim: number, index: Tensor, source: Tensor): Tensor {
    requireTensors('indexAdd', { index, source });
    return new Tensor(
      indexAdd(this.node, normalizeDim('indexAdd', dim, this.ndim), index.node, source.node),
    );
  }
  /** Shape: this i32 N -> bool [..N, classes]. */
  oneHot(classes: number): Tensor {
    const wide = [...this.shape, classes];
    return this.unsqueeze(-1)
      .expand(wide)
      .eq(new Tensor(iota(wide, wide.length - 1)));
  }

  #operand(other: Operand): Node {
    requireOperand(other);
    return typeof other === 'number' ? constantLike(this.node, other) : other.node;
  }

  #binary(build: (a: Node, b: Node) => Node, other: Operand): Tensor {
    return new Tensor(build(this.node, this.#operand(other)));
  }

  #dims(operation: string, dims: number | readonly number[] | undefined): number[] {
    const list =
      dims === undefined
        ? this.shape.map((_, dim) => dim)
        : typeof dims === 'number'
          ? [dims]
          : dims;
    return [...new Set(list.map((dim) => normalizeDim(operation, dim, this.ndim)))].sort(
      (a, b) => a - b,
    );
  }

  #reduce(
    operation: string,
    build: (x: Node, dims: readonly number[]) => Node,
    dims: number | readonly number[] | undefined,
    options: ReduceOptions | undefined,
  ): Tensor {
    if (options !== undefined) checkOptions(operation, options, reduceRules);
    const list = this.#dims(operation, dims);
    const reduced = build(this.node, list);
    return new Tensor(
      options?.keepDim === true ? reduce.keepDims(reduced, this.shape, list) : reduced,
    );
  }

  #alongLast(operation: string, dim: number, build: (x: Node) => Node): Tensor {
    const d = normalizeDim(operation, dim, this.ndim);
    if (d === this.ndim - 1) return new Tensor(build(this.node));
    return new Tensor(build(this.transpose(d, -1).node)).transpose(d, -1);
  }
}

/** Fills in one -1. Throws ShapeError where the number of elements does not fit. */
function inferSize(from: Shape, to: Shape): Shape {
  const unknown = to.indexOf(-1);
  if (unknown < 0) return to;
  const known = elementCount(to.filter((_, dim) => dim !== unknown));
  const size = elementCount(from) / known;
  if (!Number.isInteger(size) || to.lastIndexOf(-1) !== unknown) {
    throw new ShapeError(
      {
        asked: `reshape of shape ${formatShape(from)} to ${formatShape(to)}`,
        found: `${elementCount(from)} elements over ${known}`,
        todo: 'Use one -1, and sizes that divide the number of elements',
      },
      { from, to },
    );
  }
  return to.map((value, dim) => (dim === unknown ? size : value));
}

import { gather, indexAdd, scatter } from '../../graph/ops/index-ops.ts';
import { constant } from '../../graph/ops/leaf.ts';
import { expandTo, reshape } from '../../graph/ops/movement.ts';
import { cast } from '../../graph/ops/elementwise.ts';
import { CallSite } from '../../graph/call-site.ts';
import { bools, requireDType, shapeFault } from '../../graph/infer-checks.ts';
import { requireIndexDType } from '../../graph/infer-indices.ts';
import type { Node } from '../../graph/node.ts';
import {
  broadcastsTo,
  broadcastShapes,
  elementCount,
  formatShape,
  normalizeDim,
} from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import { DTypeError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { type NodeOrNumber, where } from '../arithmetic.ts';
import { resultDType } from '../promotion.ts';
import { linearIndex } from './linear-index.ts';

/** Options of `indexPut`. */
export interface IndexPutOptions {
  /**
   * Whether values are added to the elements, all of them if an element is indexed twice, instead of replacing the
   * elements. Default: false.
   */
  readonly accumulate?: boolean;
}

const putRules: OptionRules<IndexPutOptions> = { accumulate: option.flag };

/** torch.Tensor.masked_fill. `value` is a number or a scalar. Shape: x N, mask bool N' -> broadcast(N, N'). */
export function maskedFill(x: Node, mask: Node, value: NodeOrNumber): Node {
  requireDType('maskedFill', mask, bools);
  if (typeof value !== 'number' && value.shape.length > 0) {
    throw shapeFault(
      'maskedFill',
      [value],
      'a value of several elements',
      'Use a number or a scalar, or mask.where(values, x)',
    );
  }
  return where(mask, asElement('maskedFill', x, value), x);
}

/** torch.scatter. Shape: x N, index i32 N', source N' or a number -> N. */
export function put(x: Node, dim: number, index: Node, source: NodeOrNumber): Node {
  const d = normalizeDim('scatter', dim, x.shape.length);
  const site = new CallSite('scatter');
  requireIndexDType('scatter', index);
  if (typeof source !== 'number') return scatter(x, d, index, source, site);
  return scatter(x, d, index, expandTo(asElement('scatter', x, source), index.shape), site);
}

/**
 * x[indices] = values of PyTorch, as a new tensor. Shape: x [A.., R..], an index i32 for each A, values broadcast to
 * [B.., R..] -> that of x.
 */
export function indexPut(
  x: Node,
  indices: readonly Node[],
  values: NodeOrNumber,
  options: IndexPutOptions = {},
): Node {
  checkOptions('indexPut', options, putRules);
  if (indices.length === 0 || indices.length > x.shape.length) {
    throw shapeFault(
      'indexPut',
      [x],
      `${indices.length} indices for ${x.shape.length} dims`,
      'Give an index for the first dim, and for others in their order',
    );
  }
  const sizes = x.shape.slice(0, indices.length);
  const rest = x.shape.slice(indices.length);
  const { index, shape } = linearIndex('indexPut', indices, sizes);
  const target = [...shape, ...rest];
  const given = typeof values === 'number' ? asElement('indexPut', x, values) : values;
  if (!broadcastsTo(given.shape, target)) {
    throw shapeFault(
      'indexPut',
      [x, given],
      `values that do not broadcast to ${formatShape(target)}`,
      'Give a value for each element that is indexed',
    );
  }
  if (given.dtype !== x.dtype) throw otherDType('indexPut', x, given);
  const count = elementCount(shape);
  const source = reshape(expandTo(given, target), [count, ...rest]);
  const rows = reshape(x, [elementCount(sizes), ...rest]);
  const site = new CallSite('indexPut');
  if (options.accumulate === true) return reshape(indexAdd(rows, 0, index, source, site), x.shape);
  const places = expandTo(reshape(index, [count, ...rest.map(() => 1)]), source.shape);
  return reshape(scatter(rows, 0, places, source, site), x.shape);
}

/**
 * torch.take_along_dim: tensor and index broadcast in all dims but `dim`. Without a dim, both are flattened.
 * Shape: x N, index i32 N' -> broadcast(N, N'), with the index's size at `dim`.
 */
export function takeAlongDim(x: Node, index: Node, dim: number | undefined): Node {
  const site = new CallSite('takeAlongDim');
  requireIndexDType('takeAlongDim', index);
  if (dim === undefined) {
    const row = reshape(x, [elementCount(x.shape)]);
    return gather(row, 0, reshape(index, [elementCount(index.shape)]), site);
  }
  const d = normalizeDim('takeAlongDim', dim, x.shape.length);
  if (x.shape.length !== index.shape.length) {
    throw shapeFault(
      'takeAlongDim',
      [x, index],
      'different numbers of dims',
      'Use an index with as many dims',
    );
  }
  const one = (shape: readonly number[]): number[] =>
    shape.map((size, at) => (at === d ? 1 : size));
  const around = broadcastShapes('takeAlongDim', one(x.shape), one(index.shape));
  const to = (node: Node): Node =>
    expandTo(
      node,
      around.map((size, at) => (at === d ? (node.shape[d] ?? 1) : size)),
    );
  return gather(to(x), d, to(index), site);
}

/**
 * Converts a value to the dtype of x. Throws DTypeError if that dtype does not hold the value, such as a fraction for
 * integers.
 */
function asElement(op: string, x: Node, value: NodeOrNumber): Node {
  const dtype = resultDType([x, value]);
  // A number that is finite in f32 must not become infinite.
  const number = typeof value === 'number' && Number.isFinite(value) ? value : 0;
  const isInfinite = dtype === 'f16' && Math.abs(number) >= 65_520;
  if (dtype !== x.dtype || isInfinite) throw otherDType(op, x, value);
  return typeof value === 'number' ? constant(value, [], x.dtype) : cast(value, x.dtype);
}

function otherDType(op: string, x: Node, value: NodeOrNumber): DTypeError {
  const found = typeof value === 'number' ? `${value}` : `values of dtype ${value.dtype}`;
  return new DTypeError(
    {
      asked: `${op} of a tensor of dtype ${x.dtype} and shape ${formatShape(x.shape)}`,
      found: `${found}, which ${x.dtype} does not hold as they are`,
      todo: `Convert the values with .to('${x.dtype}'), or the tensor`,
    },
    { op, dtype: x.dtype },
  );
}

import { kindOf } from '../dtype.ts';
import * as elementwise from '../graph/build/elementwise.ts';
import { gather, indexAdd, indexSelect, oneHot, scatterAdd } from '../graph/build/index-ops.ts';
import { expandTo, pad, permute, reshape, sliceDim } from '../graph/build/movement.ts';
import { layerNorm, logSoftmax, rmsNorm, softmax } from '../graph/build/normalize.ts';
import { createNode, noGrad } from '../graph/create-node.ts';
import { none } from '../graph/node.ts';
import { elementCount, formatShape, normalizeDim, sizeAt } from '../shape.ts';
import type { DType, Shape } from '../spec/dtype.ts';
import { ShapeError } from '../spec/errors.ts';
import {
  asFloat,
  clamp,
  combine,
  compare,
  divide,
  inverseSqrt,
  logical,
  where,
  type NodeOrNumber,
  type RoundingMode,
} from './arithmetic.ts';
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
import { multiply } from './multiply.ts';
import * as reductions from './reductions.ts';
import type { ReduceOptions, VarianceOptions } from './reductions.ts';
import { checkOptions } from '../spec/check-options.ts';
import * as option from '../spec/option-rules.ts';
import type { OptionRules } from '../spec/option-rules.ts';

/**
 * A tensor, or a number. A whole number is like an int of Python, also where it is written 1.0, any other
 * like a float: it makes floats of integers, and changes no other dtype.
 */
export type Operand = Tensor | number;

export interface DivideOptions {
  /** Rounds the quotient to a whole number, towards zero or towards minus infinity. Default: no rounding. */
  readonly roundingMode?: RoundingMode;
}

/** Whether the last two dims are swapped before the product. */
export interface MatmulOptions {
  readonly transposeA?: boolean;
  readonly transposeB?: boolean;
}

const divideRules: OptionRules<DivideOptions> = { roundingMode: option.oneOf('trunc', 'floor') };
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

  /** What this rank keeps of something as large as the whole: all of it, where ranks do not share it out. */
  partOf(whole: Tensor): Tensor {
    return whole;
  }

  /** The gradient after backward(); null before and after zeroGrad(). */
  get grad(): Tensor | null {
    const node = this.gradientNode;
    if (node === null) return null;
    node.ofGradient = true;
    return new Tensor(node);
  }

  // Elementwise, in the dtype that resultDType says. Shape: N, N' -> broadcast(N, N').
  add(other: Operand): Tensor {
    return new Tensor(combine('add', this.node, operandOf(other)));
  }
  sub(other: Operand): Tensor {
    return new Tensor(combine('sub', this.node, operandOf(other)));
  }
  mul(other: Operand): Tensor {
    return new Tensor(combine('mul', this.node, operandOf(other)));
  }
  /**
   * The quotient, f32 of integers too; a rounded one stays an integer, and has no gradient. Integers by an element that is 0
   * give no certain value (PyTorch raises). Throws ConfigError for an integer by 0, or an unknown mode.
   */
  div(other: Operand, options: DivideOptions = {}): Tensor {
    checkOptions('div', options, divideRules);
    return new Tensor(divide(this.node, operandOf(other), options.roundingMode));
  }
  pow(exponent: Operand): Tensor {
    return new Tensor(combine('pow', this.node, operandOf(exponent)));
  }
  maximum(other: Operand): Tensor {
    return new Tensor(combine('maximum', this.node, operandOf(other)));
  }
  minimum(other: Operand): Tensor {
    return new Tensor(combine('minimum', this.node, operandOf(other)));
  }
  eq(other: Operand): Tensor {
    return new Tensor(compare('equal', this.node, operandOf(other)));
  }
  ne(other: Operand): Tensor {
    return this.eq(other).logicalNot();
  }
  lt(other: Operand): Tensor {
    return new Tensor(compare('less', this.node, operandOf(other)));
  }
  le(other: Operand): Tensor {
    return new Tensor(compare('lessEqual', this.node, operandOf(other)));
  }
  gt(other: Operand): Tensor {
    return new Tensor(compare('less', operandOf(other), this.node));
  }
  ge(other: Operand): Tensor {
    return new Tensor(compare('lessEqual', operandOf(other), this.node));
  }
  logicalAnd(other: Tensor): Tensor {
    return new Tensor(logical('logicalAnd', this.node, other.node));
  }
  logicalOr(other: Tensor): Tensor {
    return new Tensor(logical('logicalOr', this.node, other.node));
  }
  /** This tensor, of bools, is the condition. */
  where(a: Operand, b: Operand): Tensor {
    return new Tensor(where(this.node, operandOf(a), operandOf(b)));
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
    return new Tensor(elementwise.exp(asFloat(this.node)));
  }
  log(): Tensor {
    return new Tensor(elementwise.log(asFloat(this.node)));
  }
  sqrt(): Tensor {
    return new Tensor(elementwise.sqrt(asFloat(this.node)));
  }
  rsqrt(): Tensor {
    return new Tensor(inverseSqrt(this.node));
  }
  sin(): Tensor {
    return new Tensor(elementwise.sin(asFloat(this.node)));
  }
  cos(): Tensor {
    return new Tensor(elementwise.cos(asFloat(this.node)));
  }
  tanh(): Tensor {
    return new Tensor(elementwise.tanh(asFloat(this.node)));
  }
  erf(): Tensor {
    return new Tensor(elementwise.erf(asFloat(this.node)));
  }
  floor(): Tensor {
    return kindOf(this.dtype) === 'int' ? this : new Tensor(elementwise.floor(this.node));
  }
  ceil(): Tensor {
    return kindOf(this.dtype) === 'int' ? this : new Tensor(elementwise.ceil(this.node));
  }
  square(): Tensor {
    return this.dtype === 'bool' ? this.to('i32') : new Tensor(elementwise.square(this.node));
  }
  sigmoid(): Tensor {
    return new Tensor(elementwise.sigmoid(asFloat(this.node)));
  }
  relu(): Tensor {
    if (kindOf(this.dtype) === 'int') return this.maximum(0);
    return new Tensor(elementwise.relu(this.node));
  }
  /** log(1 + exp(x)). */
  softplus(): Tensor {
    return new Tensor(elementwise.softplus(this.node));
  }
  gelu(approximate: 'none' | 'tanh' = 'none'): Tensor {
    requireApproximation('gelu', approximate);
    return new Tensor(elementwise.gelu(this.node, approximate));
  }
  silu(): Tensor {
    return new Tensor(elementwise.silu(this.node));
  }
  logicalNot(): Tensor {
    return new Tensor(elementwise.logicalNot(elementwise.cast(this.node, 'bool')));
  }
  /** At the bounds the gradient is 1, as in PyTorch before 2.15, which has 0 there. */
  clamp(low: number, high: number): Tensor {
    return new Tensor(clamp(this.node, low, high));
  }
  /** Converts every element; integers that the dtype does not hold wrap around, and what is not 0 is true. */
  to(dtype: DType): Tensor {
    requireDTypeName('to()', dtype);
    return new Tensor(elementwise.cast(this.node, dtype));
  }
  /** The same values, outside the gradient. */
  detach(): Tensor {
    return new Tensor(noGrad(() => createNode('detach', none, [this.node])));
  }

  // Reductions over `dims` (all when absent). Shape: N -> N without dims.
  /** i32 of integers and bools, where PyTorch has int64; it wraps around. */
  sum(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return new Tensor(reductions.sum(this.node, dims, options));
  }
  mean(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return new Tensor(reductions.mean(this.node, dims, options));
  }
  /** Equal maxima share the gradient, as torch.amax. */
  max(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return new Tensor(reductions.max(this.node, dims, options));
  }
  min(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return new Tensor(reductions.min(this.node, dims, options));
  }
  /** Divides by n - correction, as torch.var. */
  variance(dims?: number | readonly number[], options: VarianceOptions = {}): Tensor {
    return new Tensor(reductions.variance(this.node, dims, options));
  }
  /** i32 index of the first maximum, or of the first NaN. */
  argMax(dim: number, options: ReduceOptions = {}): Tensor {
    return new Tensor(reductions.argMax(this.node, dim, options));
  }
  /** i32 of integers and bools, where PyTorch has int64; it wraps around. */
  cumsum(dim: number): Tensor {
    return new Tensor(reductions.cumsum(this.node, dim));
  }
  /** Shape: N -> N. */
  softmax(dim = -1): Tensor {
    return new Tensor(reductions.alongDim('softmax', this.node, dim, softmax));
  }
  /** Shape: N -> N. */
  logSoftmax(dim = -1): Tensor {
    return new Tensor(reductions.alongDim('logSoftmax', this.node, dim, logSoftmax));
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
    if (start > end) {
      throw new ShapeError(
        {
          asked: `flatten from dim ${startDim} to dim ${endDim} of shape ${formatShape(this.shape)}`,
          found: 'a start behind the end',
          todo: 'Name the outer dim first',
        },
        { startDim, endDim, shape: this.shape },
      );
    }
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
    const { transposeA = false, transposeB = false } = options;
    return new Tensor(multiply(this.node, other.node, transposeA, transposeB));
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
    return new Tensor(oneHot(this.node, classes));
  }
}

function operandOf(operand: Operand): NodeOrNumber {
  requireOperand(operand);
  return typeof operand === 'number' ? operand : operand.node;
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

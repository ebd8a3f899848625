import type { Instruction, Shape, ValueType } from '@shardwise/core/spec';
import type { FunctionBuilder } from '@shardwise/wasm-assembler';
import type { RoutineSource } from '../../../lanes/loop-code.ts';
import { castLong, castsLong } from '../cast-long.ts';
import { argMax } from '../dims/arg-max.ts';
import { cumsum } from '../dims/cumsum.ts';
import { sumIntegers, sumManyRows } from '../dims/sum.ts';
import { type Norm, normalize, normalizeGrad, normalizeWeightGrad } from '../../../lanes/norm.ts';
import { rowFunction } from './row-writer.ts';
import type { RowProgram } from '../../../lanes/rows.ts';
import { logSoftmax, logSoftmaxGrad, softmax, softmaxGrad } from '../../../lanes/softmax.ts';
import { sumColumns, sumRows } from './sum.ts';
import { elementCount } from '@shardwise/core/base';

/** A kernel over rows. Its parameters are sizes, then the address of each input, then the output's address. */
export interface RowKernel {
  /** The structure. Kernels with the same key have the same code. */
  readonly key: string;
  readonly sizes: readonly number[];
  readonly build: () => FunctionBuilder;
  /** The same computation as a program for each row, if it is one. The sizes are then rows and columns. */
  readonly program?: RowProgram;
  /** The same computation in machine code, if there is a routine for it. */
  readonly routine?: RoutineSource;
  /** Which gradient of which norm it is. The gradients of one norm can be computed in one pass. */
  readonly gradient?: NormGradient;
  /** The indices of a kernel that returns the place of the first index out of range, or -1. */
  readonly indices?: IndexRange;
}

/** The indices that a kernel reads. */
export interface IndexRange {
  readonly op: string;
  /** Indices from 0 to `size` - 1 are in range. */
  readonly size: number;
  /** The place of the indices among the kernel's inputs. */
  readonly input: number;
}

/**
 * A gradient of a norm. The inputs for 'input' are x, weight, dy and perhaps a residual. Those for 'weight' are x and
 * dy.
 */
export interface NormGradient {
  readonly norm: Norm;
  readonly eps: number;
  readonly of: 'input' | 'weight';
}

export const sumRowsKey = 'sum rows';
export const sumManyRowsKey = 'sum many rows';
export const sumHalvesKey = 'sum rows of bf16';

/** Beyond this many rows, a sum in f32 row by row loses digits that a sum in f64 keeps. */
const MANY_ROWS = 4096;

/**
 * Returns the kernel that computes the same sum of bf16 values, and widens them as it reads them. Returns undefined for
 * other kernels.
 */
export function sumOfHalves({ key, sizes }: RowKernel): RowKernel | undefined {
  if (key !== sumRowsKey) return undefined;
  return { key: sumHalvesKey, sizes, ...rowSums('bf16') };
}

/** Returns the kernel of an instruction, if there is one for its op, dtype and dims. */
export function rowKernel(
  instruction: Instruction,
  inputs: readonly ValueType[],
): RowKernel | undefined {
  const [x] = inputs;
  if (!x) return undefined;
  const alone = dimKernel(instruction, x) ?? longCastKernel(instruction, x);
  if (alone) return alone;
  if (instruction.dtype !== 'f32' || inputs.some(({ dtype }) => dtype !== 'f32')) return undefined;
  const sizes = rowSizes(x.shape);
  switch (instruction.op) {
    case 'softmax':
      return { key: instruction.op, sizes, ...byRows(softmax) };
    case 'softmaxGrad':
      return { key: instruction.op, sizes, ...byRows(softmaxGrad) };
    case 'logSoftmax':
      return { key: instruction.op, sizes, ...byRows(logSoftmax) };
    case 'logSoftmaxGrad':
      return { key: instruction.op, sizes, ...byRows(logSoftmaxGrad) };
    case 'layerNorm':
    case 'rmsNorm': {
      const { op, params } = instruction;
      return { key: `${op} ${params.eps}`, sizes, ...byRows(normalize(op, params.eps)) };
    }
    case 'layerNormInputGrad':
      return inputGradKernel('layerNorm', instruction.params.eps, sizes, false);
    case 'rmsNormInputGrad':
      return inputGradKernel('rmsNorm', instruction.params.eps, sizes, false);
    case 'layerNormWeightGrad':
      return weightGradKernel('layerNorm', instruction.params.eps, sizes);
    case 'rmsNormWeightGrad':
      return weightGradKernel('rmsNorm', instruction.params.eps, sizes);
    case 'sum':
      return sumKernel(x.shape, instruction.params.dims);
    default:
      return undefined;
  }
}

export function byRows(program: RowProgram): Required<Pick<RowKernel, 'build' | 'program'>> {
  return { build: () => rowFunction(program), program };
}

/** Returns the kernel of dx + residual for the kernel of dx. Returns undefined for other kernels. */
export function withResidual({ gradient, sizes }: RowKernel): RowKernel | undefined {
  if (gradient?.of !== 'input') return undefined;
  return inputGradKernel(gradient.norm, gradient.eps, sizes, true);
}

function inputGradKernel(
  norm: Norm,
  eps: number,
  sizes: readonly number[],
  residual: boolean,
): RowKernel {
  return {
    key: `${norm} input grad ${eps} ${residual}`,
    sizes,
    ...byRows(normalizeGrad(norm, eps, { residual, weight: false, bias: false })),
    gradient: { norm, eps, of: 'input' },
  };
}

function weightGradKernel(norm: Norm, eps: number, sizes: readonly number[]): RowKernel {
  return {
    key: `${norm} weight grad ${eps}`,
    sizes,
    ...byRows(normalizeWeightGrad(norm, eps)),
    gradient: { norm, eps, of: 'weight' },
  };
}

function rowSizes(shape: Shape): readonly [number, number] {
  return [elementCount(shape.slice(0, -1)), shape.at(-1) ?? 1];
}

/** Returns the kernel of an instruction that walks along one dim, of f32 or i32. */
function dimKernel(instruction: Instruction, { shape, dtype }: ValueType): RowKernel | undefined {
  if (dtype !== 'f32' && dtype !== 'i32') return undefined;
  switch (instruction.op) {
    case 'argMax': {
      const { dim } = instruction.params;
      const sizes = sizesAround(shape, dim, dim);
      return { key: `arg max ${dtype}`, sizes, build: () => argMax(dtype) };
    }
    case 'cumsum': {
      const { dim, reverse } = instruction.params;
      const sizes = sizesAround(shape, dim, dim);
      return { key: `cumsum ${dtype} ${reverse}`, sizes, build: () => cumsum(dtype, reverse) };
    }
    case 'sum': {
      const block = neighbours(shape, instruction.params.dims);
      if (dtype !== 'i32' || block === undefined) return undefined;
      return { key: 'sum integers', sizes: sizesAround(shape, ...block), build: sumIntegers };
    }
    default:
      return undefined;
  }
}

function longCastKernel(
  { op, dtype, shape }: Instruction,
  input: ValueType,
): RowKernel | undefined {
  if (op !== 'cast' || !castsLong(input.dtype, dtype)) return undefined;
  return {
    key: `cast ${input.dtype} ${dtype}`,
    sizes: [elementCount(shape)],
    build: () => castLong(input.dtype, dtype),
  };
}

/** The number of elements in the dims before, in and behind the dims from `first` to `last`. */
function sizesAround(
  shape: Shape,
  first: number,
  last: number,
): readonly [outer: number, size: number, inner: number] {
  return [
    elementCount(shape.slice(0, first)),
    elementCount(shape.slice(first, last + 1)),
    elementCount(shape.slice(last + 1)),
  ];
}

/** The first and the last of the dims, if they are adjacent apart from dims of size 1. Undefined if they are not. */
export function neighbours(
  shape: Shape,
  dims: readonly number[],
): readonly [first: number, last: number] | undefined {
  const reduced = dims.filter((dim) => shape[dim] !== 1);
  const first = reduced[0] ?? 0;
  const last = reduced.at(-1) ?? -1;
  const between = shape.slice(first, last + 1).filter((size) => size !== 1);
  return between.length === reduced.length ? [first, last] : undefined;
}

function sumKernel(shape: Shape, dims: readonly number[]): RowKernel | undefined {
  const block = neighbours(shape, dims);
  if (block === undefined) return undefined;
  const [outer, summed, inner] = sizesAround(shape, ...block);
  if (inner === 1) return { key: 'sum columns', sizes: [outer, summed], build: sumColumns };
  if (summed > MANY_ROWS) {
    return { key: sumManyRowsKey, sizes: [outer, summed, inner], build: sumManyRows };
  }
  return { key: sumRowsKey, sizes: [summed, inner, outer], ...rowSums('f32') };
}

function rowSums(dtype: 'f32' | 'bf16'): Required<Pick<RowKernel, 'build' | 'routine'>> {
  return {
    build: () => sumRows(dtype),
    routine: { kind: 'row sums', dtype },
  };
}

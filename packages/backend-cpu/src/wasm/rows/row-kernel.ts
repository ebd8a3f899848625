import type { Instruction, Shape, ValueType } from '@shardwise/core/spec';
import type { FunctionBuilder } from '@shardwise/wasm-assembler';
import type { RoutineSource } from '../../loops/loop-code.ts';
import { castLong, castsLong } from '../cast-long.ts';
import { argMax } from '../dims/arg-max.ts';
import { cumsum } from '../dims/cumsum.ts';
import { sumIntegers, sumManyRows } from '../dims/sum.ts';
import { elementCount } from '../fuse/access.ts';
import { type Norm, normalize, normalizeGrad, normalizeWeightGrad } from './norm.ts';
import { rowFunction } from './row-writer.ts';
import type { RowProgram } from './rows.ts';
import { logSoftmax, logSoftmaxGrad, softmax, softmaxGrad } from './softmax.ts';
import { sumColumns, sumRows } from './sum.ts';

/** A kernel over rows, and how to call it: sizes, then the address of each input, then the output's. */
export interface RowKernel {
  /** Structure: kernels with one key are the same code. */
  readonly key: string;
  readonly sizes: readonly number[];
  readonly build: () => FunctionBuilder;
  /** The same as what is done to each row, where it is that; sizes are rows and columns then. */
  readonly program?: RowProgram;
  /** The same in machine code, where there is a routine of it. */
  readonly routine?: RoutineSource;
  /** Which gradient of which norm it is: those of one norm can be made in one pass. */
  readonly gradient?: NormGradient;
  /** The indices of a kernel that returns the place of the first one that is out of range, or -1. */
  readonly indices?: IndexRange;
}

/** Which indices a kernel reads. */
export interface IndexRange {
  readonly op: string;
  /** Indices from 0 to `size` - 1 are in range. */
  readonly size: number;
  /** The place of the indices among the kernel's inputs. */
  readonly input: number;
}

/** Inputs of `input` are x, weight, dy and perhaps a residual; those of `weight` are x and dy. */
export interface NormGradient {
  readonly norm: Norm;
  readonly eps: number;
  readonly of: 'input' | 'weight';
}

export const sumRowsKey = 'sum rows';
export const sumManyRowsKey = 'sum many rows';
export const sumHalvesKey = 'sum rows of bf16';

/** Beyond this a sum row by row in f32 loses digits that a sum in f64 keeps. */
const manyRows = 4096;

/** The same sum of bf16 values, which it widens as it reads them; undefined for other kernels. */
export function sumOfHalves({ key, sizes }: RowKernel): RowKernel | undefined {
  if (key !== sumRowsKey) return undefined;
  return { key: sumHalvesKey, sizes, ...rowSums('bf16') };
}

/** The kernel of an instruction, where there is one for its op, dtype and dims. */
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

/** The kernel of dx + residual for the kernel of dx; undefined where it is another kernel. */
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

/** What walks along one dim, of f32 and i32 alike. */
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

/** How many elements there are before, in and behind the dims from `first` to `last`. */
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

/** The first and the last of dims that are neighbours, those of size 1 aside; undefined where they are not. */
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
  if (summed > manyRows) {
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

import type { Instruction, Shape, ValueType } from '@shardwise/core/spec';
import type { FunctionBuilder } from '../assembler/function-builder.ts';
import { elementCount } from '../fuse/access.ts';
import { type Norm, normalize, normalizeGrad, normalizeWeightGrad } from './norm.ts';
import { logSoftmax, logSoftmaxGrad, softmax, softmaxGrad } from './softmax.ts';
import { sumColumns, sumRows } from './sum.ts';

/** A kernel over rows, and how to call it: sizes, then the address of each input, then the output's. */
export interface RowKernel {
  /** Structure: kernels with one key are the same code. */
  readonly key: string;
  readonly sizes: readonly number[];
  readonly build: () => FunctionBuilder;
  /** Which gradient of which norm it is: those of one norm can be made in one pass. */
  readonly gradient?: NormGradient;
}

/** Inputs of `input` are x, weight, dy and perhaps a residual; those of `weight` are x and dy. */
export interface NormGradient {
  readonly norm: Norm;
  readonly eps: number;
  readonly of: 'input' | 'weight';
}

export const sumRowsKey = 'sum rows';

/** The kernel of an instruction, where there is one for its op, dtype and dims. */
export function rowKernel(
  instruction: Instruction,
  inputs: readonly ValueType[],
): RowKernel | undefined {
  const [x] = inputs;
  if (!x || instruction.dtype !== 'f32' || inputs.some(({ dtype }) => dtype !== 'f32')) {
    return undefined;
  }
  const sizes = rowSizes(x.shape);
  switch (instruction.op) {
    case 'softmax':
      return { key: instruction.op, sizes, build: softmax };
    case 'softmaxGrad':
      return { key: instruction.op, sizes, build: softmaxGrad };
    case 'logSoftmax':
      return { key: instruction.op, sizes, build: logSoftmax };
    case 'logSoftmaxGrad':
      return { key: instruction.op, sizes, build: logSoftmaxGrad };
    case 'layerNorm':
    case 'rmsNorm': {
      const { op, params } = instruction;
      return { key: `${op} ${params.eps}`, sizes, build: () => normalize(op, params.eps) };
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
    build: () => normalizeGrad(norm, eps, { residual, weight: false, bias: false }),
    gradient: { norm, eps, of: 'input' },
  };
}

function weightGradKernel(norm: Norm, eps: number, sizes: readonly number[]): RowKernel {
  return {
    key: `${norm} weight grad ${eps}`,
    sizes,
    build: () => normalizeWeightGrad(norm, eps),
    gradient: { norm, eps, of: 'weight' },
  };
}

function rowSizes(shape: Shape): readonly [number, number] {
  return [elementCount(shape.slice(0, -1)), shape.at(-1) ?? 1];
}

/** Sums over neighbouring dims, those of size 1 aside. */
function sumKernel(shape: Shape, dims: readonly number[]): RowKernel | undefined {
  const reduced = dims.filter((dim) => shape[dim] !== 1);
  const first = reduced[0] ?? 0;
  const last = reduced.at(-1) ?? -1;
  if (shape.slice(first, last + 1).filter((dim) => dim !== 1).length !== reduced.length) {
    return undefined;
  }
  const outer = elementCount(shape.slice(0, first));
  const summed = elementCount(shape.slice(first, last + 1));
  const inner = elementCount(shape.slice(last + 1));
  if (inner === 1) return { key: 'sum columns', sizes: [outer, summed], build: sumColumns };
  return { key: sumRowsKey, sizes: [summed, inner, outer], build: sumRows };
}

import type { Instruction, Shape, ValueType } from '@shardwise/core/spec';
import type { FunctionBuilder } from '../assembler/function-builder.ts';
import { elementCount } from '../fuse/access.ts';
import { normalize, normalizeInputGrad, normalizeWeightGrad } from './norm.ts';
import { logSoftmax, logSoftmaxGrad, softmax, softmaxGrad } from './softmax.ts';
import { sumColumns, sumRows } from './sum.ts';

/** A kernel over rows, and how to call it: sizes, then the address of each input, then the output's. */
export interface RowKernel {
  /** Structure: kernels with one key are the same code. */
  readonly key: string;
  readonly sizes: readonly number[];
  readonly build: () => FunctionBuilder;
}

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
    case 'rmsNormInputGrad': {
      const { op, params } = instruction;
      const norm = op === 'layerNormInputGrad' ? 'layerNorm' : 'rmsNorm';
      return {
        key: `${op} ${params.eps}`,
        sizes,
        build: () => normalizeInputGrad(norm, params.eps),
      };
    }
    case 'layerNormWeightGrad':
    case 'rmsNormWeightGrad': {
      const { op, params } = instruction;
      const norm = op === 'layerNormWeightGrad' ? 'layerNorm' : 'rmsNorm';
      return {
        key: `${op} ${params.eps}`,
        sizes,
        build: () => normalizeWeightGrad(norm, params.eps),
      };
    }
    case 'sum':
      return sumKernel(x.shape, instruction.params.dims);
    default:
      return undefined;
  }
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
  return { key: 'sum rows', sizes: [summed, inner, outer], build: sumRows };
}

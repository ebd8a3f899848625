import { elementCount } from '@shardwise/core/base';
import type { GatheredGradient } from './work/attention-work.ts';
import {
  BackendError,
  dtypes,
  type ComputeOp,
  type ComputeParams,
  type DType,
  type Shape,
  type ValueType,
} from '@shardwise/core/spec';

/** The params that instructions have in addition to those of their ops. */
interface ExtraParams {
  /**
   * The product is multiplied by `scale`, if it is there. Then input 2, if it is there, is added. Then, with `rounds`,
   * an f32 result is rounded to the precision of bf16.
   */
  readonly matmul: { readonly scale?: number; readonly rounds?: true };
  /** Whether the last input is not an operand, but a value that the instruction waits for. */
  readonly attentionLogSumExp: { readonly waits?: true };
  /** The instruction computes all of these gradients, as parts of one value. */
  readonly attentionQueryGrad: { readonly gathered?: readonly GatheredGradient[] };
  readonly groupedMatmul: { readonly rounds?: true };
  readonly groupedMatmulWeight: { readonly rounds?: true };
}

/** For each op, an instruction and the id of the value that it makes. */
export type InstructionMap = {
  readonly [K in ComputeOp]: {
    readonly op: K;
    readonly params: ComputeParams[K] & (K extends keyof ExtraParams ? ExtraParams[K] : unknown);
    readonly inputs: readonly number[];
    readonly shape: Shape;
    readonly dtype: DType;
    readonly output: number;
  };
};

export type CpuInstruction = InstructionMap[ComputeOp];

/**
 * A program with an id on every instruction. The ids of dropped instructions stay unused. The instructions are in the
 * program's order, so an instruction still reads only earlier values.
 */
export interface CpuProgram {
  /** The type of each value, by id. */
  readonly values: readonly ValueType[];
  /** Values 0 … inputCount-1 are the inputs. */
  readonly inputCount: number;
  readonly instructions: readonly CpuInstruction[];
  readonly outputs: readonly number[];
  readonly updates: readonly { readonly target: number; readonly value: number }[];
}

export function byteLengthOf(type: ValueType): number {
  return elementCount(type.shape) * dtypes[type.dtype].bytes;
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((size, dim) => size === b[dim]);
}

export function valueAt(values: readonly ValueType[], id: number): ValueType {
  const value = values[id];
  if (value === undefined) {
    throw new BackendError(
      {
        asked: `value ${id} of a program`,
        found: `the program has ${values.length} values`,
        todo: 'Read only inputs and values of earlier instructions',
      },
      { id, values: values.length },
    );
  }
  return value;
}

/** Returns the id of an instruction's input. Throws BackendError if the instruction has too few inputs. */
export function inputAt(instruction: CpuInstruction, index: number): number {
  const id = instruction.inputs[index];
  if (id === undefined) {
    throw new BackendError(
      {
        asked: `input ${index} of ${instruction.op}`,
        found: `${instruction.inputs.length} inputs`,
        todo: 'Pass every input of the op',
      },
      { op: instruction.op, inputs: instruction.inputs.length },
    );
  }
  return id;
}

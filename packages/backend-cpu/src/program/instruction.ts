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

/** The params that steps have in addition to those of their ops. */
interface StepParams {
  /**
   * The product is multiplied by `scale`, if it is there. Then input 2, if it is there, is added. Then, with `rounds`,
   * an f32 result is rounded to the precision of bf16.
   */
  readonly matmul: { readonly scale?: number; readonly rounds?: true };
  /** Whether the last input is not an operand, but a value that the step waits for. */
  readonly attentionLogSumExp: { readonly waits?: true };
  /** The step computes all of these gradients, as parts of one value. */
  readonly attentionQueryGrad: { readonly gathered?: readonly GatheredGradient[] };
  readonly groupedMatmul: { readonly rounds?: true };
  readonly groupedMatmulWeight: { readonly rounds?: true };
}

/** For each op, an instruction and the id of the value that it makes. */
export type StepMap = {
  readonly [K in ComputeOp]: {
    readonly op: K;
    readonly params: ComputeParams[K] & (K extends keyof StepParams ? StepParams[K] : unknown);
    readonly inputs: readonly number[];
    readonly shape: Shape;
    readonly dtype: DType;
    readonly output: number;
  };
};

export type Step = StepMap[ComputeOp];

/**
 * A program with an id on every step. The ids of dropped steps stay unused. The steps are in the program's order, so a
 * step still reads only earlier values.
 */
export interface Segment {
  /** The type of each value, by id. */
  readonly values: readonly ValueType[];
  /** Values 0 … inputCount-1 are the inputs. */
  readonly inputCount: number;
  readonly steps: readonly Step[];
  readonly outputs: readonly number[];
  readonly updates: readonly { readonly target: number; readonly value: number }[];
}

export function elementCount(shape: Shape): number {
  return shape.reduce((product, size) => product * size, 1);
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

/** Returns the id of a step's input. Throws BackendError if the step has too few inputs. */
export function inputAt(step: Step, index: number): number {
  const id = step.inputs[index];
  if (id === undefined) {
    throw new BackendError(
      {
        asked: `input ${index} of ${step.op}`,
        found: `${step.inputs.length} inputs`,
        todo: 'Pass every input of the op',
      },
      { op: step.op, inputs: step.inputs.length },
    );
  }
  return id;
}

import type { PrimitiveOp, PrimitiveParams } from '@shardwise/core/spec';
import type { NdArray } from './nd-array.ts';

/** Computes `out` from the inputs. `out` already has its shape and dtype, and is filled with zeros. */
export type Definition<K extends PrimitiveOp> = (
  params: PrimitiveParams[K],
  out: NdArray,
  ...inputs: NdArray[]
) => void;

/** One definition for every op of a group. */
export type Definitions<K extends PrimitiveOp = PrimitiveOp> = {
  readonly [P in K]: Definition<P>;
};

import type { ComputeOp } from '@shardwise/core/spec';
import type { AddressOf } from '../compile/compiled-piece.ts';
import type { StepMap } from '../compile/step.ts';
import type { Arena } from '../memory/arena.ts';
import type { PlannedLoop } from './planned-loop.ts';

/** Computes a step on values where they lie in memory. */
export type RunLoop = (addressOf: AddressOf) => void;

/** Links steps of certain ops: returns the function that runs the step. */
export type LinkLoop<K extends ComputeOp> = (
  arena: Arena,
  step: StepMap[K],
  inputs: PlannedLoop['inputs'],
) => RunLoop;

import type { ComputeOp } from '@shardwise/core/spec';
import type { AddressOf } from '../compile/compiled-piece.ts';
import type { StepMap } from '../compile/step.ts';
import type { Arena } from '../memory/arena.ts';
import type { PlannedLoop } from './planned-loop.ts';

/** Computes a step where its values lie. */
export type RunLoop = (addressOf: AddressOf) => void;

/** Makes a step of some ops runnable. */
export type LinkLoop<K extends ComputeOp> = (
  arena: Arena,
  step: StepMap[K],
  inputs: PlannedLoop['inputs'],
) => RunLoop;

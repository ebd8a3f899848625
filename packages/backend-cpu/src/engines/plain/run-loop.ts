import type { ComputeOp } from '@shardwise/core/spec';
import type { AddressOf } from '../../program/compiled-partition.ts';
import type { StepMap } from '../../program/instruction.ts';
import type { Arena } from '../../memory/arena.ts';
import type { PlannedLoop } from '../../plan/partition/fallback-engine.ts';

/** Computes a step on values where they lie in memory. */
export type RunLoop = (addressOf: AddressOf) => void;

/** Links steps of certain ops: returns the function that runs the step. */
export type LinkLoop<K extends ComputeOp> = (
  arena: Arena,
  step: StepMap[K],
  inputs: PlannedLoop['inputs'],
) => RunLoop;

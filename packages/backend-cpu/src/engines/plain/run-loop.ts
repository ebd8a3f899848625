import type { ComputeOp } from '@shardwise/core/spec';
import type { InstructionMap } from '../../program/instruction.ts';
import type { Arena } from '../../memory/arena.ts';
import type { PlannedLoop } from '../../plan/partition/fallback-engine.ts';
import type { AddressOf } from '../../program/partition.ts';

/** Computes an instruction on values where they lie in memory. */
export type RunLoop = (addressOf: AddressOf) => void;

/** Links instructions of certain ops: returns the function that runs the instruction. */
export type LinkLoop<K extends ComputeOp> = (
  arena: Arena,
  instruction: InstructionMap[K],
  inputs: PlannedLoop['inputs'],
) => RunLoop;

import type { Module } from '@shardwise/core/extend';
import type { Checkpoint } from '../../checkpoint/load/open-checkpoint.ts';
import { loadModel } from '../../checkpoint/load/load-model.ts';
import { loadOptimizer, type LoadedOptimizer } from '../../checkpoint/load/load-optimizer.ts';
import { loadStates } from '../../checkpoint/load/load-states.ts';
import type { SavedOptimizer } from '../../checkpoint/format/optimizer-chunks.ts';
import type { Statefuls } from '../../checkpoint/format/stateful.ts';

/** What ranks of a training have in common, and one that comes is given. */
export interface Training {
  readonly model: Module;
  /** The optimizer of the parameters of `model`. */
  readonly optimizer?: SavedOptimizer & LoadedOptimizer;
  /**
   * Other objects that remember something between updates, under names that the script chooses: a loader of batches, a
   * schedule, a loss scaler, or any object with stateDict and loadStateDict. Their states must be equal on all ranks that
   * have the same part.
   */
  readonly states?: Statefuls;
}

/** Gives a training all that a checkpoint has of it. */
export async function loadTraining(
  checkpoint: Checkpoint,
  { model, optimizer, states = {} }: Training,
): Promise<void> {
  await loadModel(checkpoint, model);
  if (optimizer !== undefined) await loadOptimizer(checkpoint, model, optimizer);
  await loadStates(checkpoint, states);
}

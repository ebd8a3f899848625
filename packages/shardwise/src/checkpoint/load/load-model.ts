import {
  checkOptions,
  type LoadOptions,
  type LoadReport,
  loadRules,
  loadTensors,
  type Module,
  requireModule,
} from '@shardwise/core/extend';
import { checkpointSource } from './checkpoint-source.ts';
import { requireCheckpoint, type Checkpoint } from './open-checkpoint.ts';

/**
 * Overwrites a model's parameters and buffers in place, whatever strategy is applied to it. Each rank reads the parts
 * that it keeps, and its own values of tensors that vary over ranks. It is a collective for models whose states are
 * sharded. Throws CheckpointError for a damaged file. Before anything changes, it throws a CheckpointError that lists
 * all missing and unexpected names (if strict), all different shapes and dtypes, and all tensors that hold only values
 * of other ranks.
 */
export async function loadModel(
  checkpoint: Checkpoint,
  model: Module,
  options: LoadOptions = {},
): Promise<LoadReport> {
  requireCheckpoint('loadModel', checkpoint);
  requireModule('loadModel', model);
  checkOptions('loadModel', options, loadRules);
  return loadTensors(checkpointSource(checkpoint), model, options);
}

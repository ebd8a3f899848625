// The group `checkpoints`: saving a training and going on with it, like torch.distributed.checkpoint.
export type { CheckpointContents } from '../checkpoint/checkpoint-contents.ts';
export type { SaveOptions } from '../checkpoint/checkpoint-saver.ts';
export { exportModel } from '../checkpoint/export-model.ts';
export { loadCheckpoint as load } from '../checkpoint/load-checkpoint.ts';
export type { Checkpoint } from '../checkpoint/open-checkpoint.ts';
export { loadModel } from '../checkpoint/load-model.ts';
export { loadStates, type LoadStatesOptions } from '../checkpoint/load-states.ts';
export { loadOptimizer, type LoadedOptimizer } from '../checkpoint/load-optimizer.ts';
export type { SavedOptimizer } from '../checkpoint/optimizer-chunks.ts';
export { loadState } from '../checkpoint/load-state.ts';
export { loadTensors } from '../checkpoint/load-tensors.ts';
export { saveState } from '../checkpoint/save-state.ts';
export { saveTensors } from '../checkpoint/save-tensors.ts';
export {
  saveCheckpoint as save,
  type SaveCheckpointOptions,
} from '../checkpoint/save-checkpoint.ts';
export type { Stateful, Statefuls } from '../checkpoint/stateful.ts';
export type {
  JsonValue,
  StatePath,
  StoredGroup,
  StoredState,
  StoredTensor,
} from '../checkpoint/state-file.ts';
export type { StoredTensors } from '../checkpoint/stored-tensors.ts';

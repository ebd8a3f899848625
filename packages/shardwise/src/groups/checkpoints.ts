// The group `checkpoints`: saving a training and going on with it, like torch.distributed.checkpoint.
export type { CheckpointContents } from '../checkpoint/save/checkpoint-contents.ts';
export type { SaveOptions } from '../checkpoint/save/checkpoint-saver.ts';
export { exportModel, type ExportOptions } from '../checkpoint/single-file/export-model.ts';
export { loadCheckpoint as load } from '../checkpoint/load/load-checkpoint.ts';
export type { Checkpoint } from '../checkpoint/load/open-checkpoint.ts';
export { loadModel } from '../checkpoint/load/load-model.ts';
export { loadStates, type LoadStatesOptions } from '../checkpoint/load/load-states.ts';
export { loadOptimizer, type LoadedOptimizer } from '../checkpoint/load/load-optimizer.ts';
export type { SavedOptimizer } from '../checkpoint/format/optimizer-chunks.ts';
export { loadStateFile } from '../checkpoint/single-file/state-file.ts';
export { loadTensorFile } from '../checkpoint/single-file/tensor-file.ts';
export { saveStateFile } from '../checkpoint/single-file/state-file.ts';
export { saveTensorFile } from '../checkpoint/single-file/tensor-file.ts';
export {
  saveCheckpoint as save,
  type SaveCheckpointOptions,
} from '../checkpoint/save/save-checkpoint.ts';
export type { Stateful, Statefuls } from '../checkpoint/format/stateful.ts';
export type {
  JsonValue,
  StatePath,
  StoredGroup,
  StoredState,
  StoredTensor,
} from '../checkpoint/format/index-file.ts';
export type { StoredTensors } from '../checkpoint/load/stored-tensors.ts';

// The group `checkpoints` in pages. The files are those of `shardwise run`.
export { checkpointFile } from './checkpoint/checkpoint-file.ts';
export type { CheckpointSource } from './checkpoint/checkpoint-source.ts';
export { download } from './checkpoint/download.ts';
export { loadCheckpoint as load } from './checkpoint/load-checkpoint.ts';
export type { PickedFiles } from './checkpoint/picked-files.ts';
export {
  listCheckpoints as list,
  removeCheckpoints as remove,
} from './checkpoint/stored-checkpoints.ts';
export type { CheckpointContents } from '../checkpoint/save/checkpoint-contents.ts';
export type { SaveOptions } from '../checkpoint/save/checkpoint-saver.ts';
export { loadModel } from '../checkpoint/load/load-model.ts';
export { loadOptimizer, type LoadedOptimizer } from '../checkpoint/load/load-optimizer.ts';
export { loadStates, type LoadStatesOptions } from '../checkpoint/load/load-states.ts';
export type { Checkpoint } from '../checkpoint/load/open-checkpoint.ts';
export type { SavedOptimizer } from '../checkpoint/format/optimizer-chunks.ts';
export type {
  JsonValue,
  StatePath,
  StoredGroup,
  StoredState,
  StoredTensor,
} from '../checkpoint/format/index-file.ts';
export type { Stateful, Statefuls } from '../checkpoint/format/stateful.ts';
export type { StoredTensors } from '../checkpoint/load/stored-tensors.ts';

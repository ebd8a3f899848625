// What a page needs to train. The page starts ranks, and the workers of the ranks call `init`.

// Tensors, modules, optimizers and data, and the interfaces of backends, transports and strategies.
export * from '@shardwise/core';
// Ways to train a model on many ranks.
export * from '@shardwise/strategies';
export * from '@shardwise/parameter-server';
// What the page itself uses.
export { startRanks, type PageRun, type StartRanksOptions } from './start-ranks.ts';
export { chooseDevice, type PageDevice } from './choose-device.ts';
export type { PageReport } from './page-report.ts';
export type { ErrorText, RankEnd } from './page-message.ts';
export { blame } from './blame.ts';
// What a rank uses.
export { init } from './init.ts';
export type { PageRankContext } from './page-rank-context.ts';
export type { StepMetrics } from '../rank/step-metrics.ts';
export type { StepReport } from '../run-state/message.ts';
// Checkpoints, in the same format as those of `shardwise run`.
export { checkpointFile } from './checkpoint/checkpoint-file.ts';
export type { CheckpointSource } from './checkpoint/checkpoint-source.ts';
export { download } from './checkpoint/download.ts';
export { loadCheckpoint } from './checkpoint/load-checkpoint.ts';
export type { PickedFiles } from './checkpoint/picked-files.ts';
export { listCheckpoints, removeCheckpoints } from './checkpoint/stored-checkpoints.ts';
export type { CheckpointContents } from '../checkpoint/checkpoint-contents.ts';
export type { SaveOptions } from '../checkpoint/checkpoint-saver.ts';
export { loadModel } from '../checkpoint/load-model.ts';
export { loadOptimizer, type LoadedOptimizer } from '../checkpoint/load-optimizer.ts';
export { loadStates, type LoadStatesOptions } from '../checkpoint/load-states.ts';
export type { Checkpoint } from '../checkpoint/open-checkpoint.ts';
export type { SavedOptimizer } from '../checkpoint/optimizer-chunks.ts';
export type {
  JsonValue,
  StatePath,
  StoredGroup,
  StoredState,
  StoredTensor,
} from '../checkpoint/state-file.ts';
export type { Stateful, Statefuls } from '../checkpoint/stateful.ts';
export type { StoredTensors } from '../checkpoint/stored-tensors.ts';
// Records of the calls of ranks, for `blame`.
export { type FlightDump, FlightRecorder, recordCalls } from '@shardwise/collectives';

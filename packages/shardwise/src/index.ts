// Tensors, modules, optimizers and data, and the interfaces of backends, transports and strategies.
export * from '@shardwise/core';
// Process groups.
export * from '@shardwise/collectives';
// Ways to train a model on many ranks.
export * from '@shardwise/strategies';
export * from '@shardwise/parameter-server';
// The CPU as a device.
export { cpu, type CpuBackend, type CpuOptions } from '@shardwise/backend-cpu';
// A rank of a run.
export { init, type InitOptions } from './rank/init.ts';
export type { RankContext } from './rank/rank-context.ts';
export type { StepMetrics } from './rank/step-metrics.ts';
export type { Fact } from './run-state/message.ts';
// Checkpoints.
export type { CheckpointContents } from './checkpoint/checkpoint-contents.ts';
export type { SaveOptions } from './checkpoint/checkpoint-saver.ts';
export { exportModel } from './checkpoint/export-model.ts';
export { loadCheckpoint } from './checkpoint/load-checkpoint.ts';
export type { Checkpoint } from './checkpoint/open-checkpoint.ts';
export { loadModel } from './checkpoint/load-model.ts';
export { loadStates, type LoadStatesOptions } from './checkpoint/load-states.ts';
export { loadOptimizer, type LoadedOptimizer } from './checkpoint/load-optimizer.ts';
export type { SavedOptimizer } from './checkpoint/optimizer-chunks.ts';
export { loadState } from './checkpoint/load-state.ts';
export { loadTensors } from './checkpoint/load-tensors.ts';
export { saveState } from './checkpoint/save-state.ts';
export { saveTensors } from './checkpoint/save-tensors.ts';
export { saveCheckpoint, type SaveCheckpointOptions } from './checkpoint/save-checkpoint.ts';
export type { Stateful, Statefuls } from './checkpoint/stateful.ts';
export type {
  JsonValue,
  StatePath,
  StoredGroup,
  StoredState,
  StoredTensor,
} from './checkpoint/state-file.ts';
export type { StoredTensors } from './checkpoint/stored-tensors.ts';

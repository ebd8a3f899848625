export { cutSequences, type CutSequences } from './context-parallel/cut-sequences.ts';
export { distribute, type Distribute } from './distributed-data-parallel/distribute.ts';
export { gather, type Gather } from './sharded/gather.ts';
export { master, type Master } from './data-parallel/master.ts';
export { outerSteps, type OuterSteps } from './local-sgd/outer-steps.ts';
export { page, type PageOut } from './sharded/page.ts';
export { recompute, type Recompute } from './memory/recompute.ts';
export { reduce, type Reduce } from './distributed-data-parallel/reduce.ts';
export { runStages } from './pipeline/run-stages.ts';
export { runLayer, type RunLayer } from './tensor-parallel/run-layer.ts';
export { shardLayers, type ShardLayers } from './tensor-parallel/shard-layers.ts';
export {
  broadcastBuffers,
  type BroadcastBuffers,
} from './distributed-data-parallel/broadcast-buffers.ts';
export type { RunStages } from './pipeline/run-stages-key.ts';

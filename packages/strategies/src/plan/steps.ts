export { distribute, type Distribute } from './steps/distribute.ts';
export { gather, type Gather } from './steps/gather.ts';
export { master, type Master } from './steps/master.ts';
export { page, type PageOut } from './steps/page.ts';
export { reduce, type Reduce } from './steps/reduce.ts';
export { runLayer, type RunLayer } from './steps/run-layer.ts';
export { shardLayers, type ShardLayers } from './steps/shard-layers.ts';
export { shareBuffers, type ShareBuffers } from './steps/share-buffers.ts';

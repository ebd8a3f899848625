// The names of torch.utils.data, as one group for users.
export { ndArray, type ArrayTree, type NDArray, type TypedArrays } from './tensor/nd-array.ts';
export type { Dataset } from './data/dataset.ts';
export type { IterableDataset } from './data/iterable-dataset.ts';
export { ArrayDataset } from './data/array-dataset.ts';
export {
  splitText,
  TextDataset,
  type TextDatasetOptions,
  type TextSample,
} from './data/text-dataset.ts';
export { ConcatDataset } from './data/concat-dataset.ts';
export { randomSplit, Subset } from './data/subset.ts';
export { collate } from './data/collate.ts';
export { SequentialSampler } from './data/sequential-sampler.ts';
export { RandomSampler, type RandomSamplerOptions } from './data/random-sampler.ts';
export { DistributedSampler, type DistributedSamplerOptions } from './data/distributed-sampler.ts';
export {
  WeightedRandomSampler,
  type WeightedRandomSamplerOptions,
} from './data/weighted-random-sampler.ts';
export { BatchSampler } from './data/batch-sampler.ts';
export type { ResumableSampler, SamplerSettings } from './data/resumable-sampler.ts';
export { DataLoader, type DataLoaderOptions } from './data/data-loader.ts';
export type { LoaderState } from './data/loader-state.ts';
export type { WorkerDataset } from './data/worker-dataset.ts';

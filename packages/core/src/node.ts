export { readTextFiles, type ReadTextFilesOptions } from './data/read-text-files.ts';
export { filePages, type FilePages } from './paging/file-pages.ts';
export { rankProcessOptions, rankResourceLimits } from './rank-heap.ts';
export { keepGenericWasmWrappers } from './worker-safety.ts';

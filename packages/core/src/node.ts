export { readTextFiles, type ReadTextFilesOptions } from './data/read-text-files.ts';
export { keepGenericWasmWrappers } from './worker-safety.ts';

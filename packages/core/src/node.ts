export { readTextFiles, type ReadTextFilesOptions } from './data/read-text-files.ts';

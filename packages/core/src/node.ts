export { readTextFiles, type ReadTextFilesOptions } from './data/read-text-files.ts';
export { fillFromFile } from './paging/fill-from-file.ts';
export { filePages, type FilePages } from './paging/file-pages.ts';
export { keepGenericWasmWrappers, rankProcessOptions, rankResourceLimits } from './v8-settings.ts';
export { diskFolder } from './serialization/disk-folder.ts';
export { syncDirectory, writeAt } from './serialization/write-at.ts';
export { s3Folder } from './folders/s3-folder.ts';
export type { S3Credentials, S3Options } from './folders/s3-options.ts';
export {
  fileAt,
  folderAt,
  isAddress,
  pretrainedFolderAt,
  writableFolderAt,
} from './folders/folder-at.ts';
export { hubFolder } from './folders/hub-folder.ts';
export type { HubOptions } from './folders/hub-options.ts';

// The entry point for Node: what reads files.
export { loadTokenizer } from './files/load-tokenizer.ts';
export { saveTokenizer } from './files/save-tokenizer.ts';
export { fileBytes } from './files/file-bytes.ts';
export { openIndexedTokens, openTokens, type OpenTokensOptions } from './files/token-files.ts';
export { type ImageRows, readImageFolder } from './files/image-folder.ts';
export { loadImageProcessor } from './files/load-image-processor.ts';
export { decodeImage } from './files/decode-image.ts';
export { WorkerStream, type WorkerStreamOptions } from './workers/worker-stream.ts';
export {
  hubFolder,
  type HubOptions,
  s3Folder,
  type S3Credentials,
  type S3Options,
} from '@shardwise/core/node';

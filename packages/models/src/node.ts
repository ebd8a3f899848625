export { readAdapter, saveAdapter } from './lora/adapter-folder.ts';
export { saveOnnx, type SaveOnnxOptions } from './onnx/save-onnx.ts';
export {
  hubFolder,
  type HubOptions,
  s3Folder,
  type S3Credentials,
  type S3Options,
} from '@shardwise/core/node';
export { fromPretrained, loadPretrained } from './weights/pretrained-on-disk.ts';
export { savePretrained, type SavePretrainedOptions } from './weights/save-pretrained.ts';
export type { PretrainedPlace } from './weights/pretrained-on-disk.ts';

export { readAdapter, saveAdapter } from './lora/adapter-folder.ts';
export { saveOnnx, type SaveOnnxOptions } from './onnx/save-onnx.ts';
export { fromPretrained, loadPretrained } from './weights/pretrained-on-disk.ts';
export { savePretrained, type SavePretrainedOptions } from './weights/save-pretrained.ts';
export type { PretrainedPlace } from './weights/pretrained-on-disk.ts';

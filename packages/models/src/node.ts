export { saveOnnx, type SaveOnnxOptions } from './onnx/save-onnx.ts';

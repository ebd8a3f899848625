export { standardComposites, standardGraph } from './emit/onnx/lower/standard-graph.ts';
export {
  type ExternalData,
  modelParts,
  type OnnxGraph,
  type OnnxInitializer,
  type OnnxNode,
  tensorTypes,
  type TensorType,
} from './emit/onnx/model.ts';

export * from './spec/index.ts';
export { Tensor, type Operand, type ReduceOptions } from './tensor/tensor.ts';
export { queueAfterBackward, TensorHandle, type GradientHook } from './tensor/handle.ts';
export { arange, concat, fromData, full, ones, stack, tensor, zeros, type NestedNumbers } from './tensor/create.ts';
export type { HostData } from './tensor/host-data.ts';
export { noGrad } from './graph/node.ts';
export { setRank, currentSession, type Rank } from './rank.ts';
export { LineMesh, LocalMesh, axisOf } from './mesh.ts';
export { statistics, subscribe, type Statistics, type TimelineEvent } from './timeline.ts';
export { elementCount, formatShape, sameShape } from './shape.ts';
export { allGather, allReduce, allToAll, broadcast, reduce, reduceScatter, reinterpret, sendRecv } from './tensor/collectives.ts';
export type { HostArray, HostArrays } from './serialization/host-array.ts';
export {
  decodeSafetensors,
  decodeSafetensorsHeader,
  encodeSafetensors,
  encodeSafetensorsHeader,
  safetensorsHeaderBytes,
  type SafetensorsContents,
  type SafetensorsEntry,
  type SafetensorsHeader,
} from './serialization/safetensors.ts';

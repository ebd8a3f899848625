export { type Code, type Operation, type ValueKind, vector, type Width } from './code.ts';
export { createSharedMemory } from './create-shared-memory.ts';
export { encodeModule, type MemoryType } from './encode-module.ts';
export { FunctionBuilder, type Local } from './function-builder.ts';
export { instantiateKernels, type Kernel } from './instantiate-kernels.ts';
export {
  f32,
  f32x4,
  f64,
  f64x2,
  i16x8,
  i32,
  i32x4,
  i64,
  i8x16,
  memory,
  usize,
  v128,
} from './instructions.ts';
export {
  type MemoryHost,
  type MemoryLimits,
  memoryLimits,
  narrowMemoryBytes,
  pageBytes,
} from './memory-limits.ts';

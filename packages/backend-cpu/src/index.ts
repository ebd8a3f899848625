export { cpu, type CpuOptions } from './cpu.ts';
export type { CpuBackend } from './cpu-backend.ts';
export { hasFastBf16 } from './fast-bf16.ts';
export type { LoopsBy } from './engines/loops/loops.ts';
export type { ArenaUsage } from './memory/arena.ts';
export type { ProductInstructions } from './engines/products/product-machine.ts';
export type { ProductsBy } from './engines/products/products.ts';
export { onnxRuntimeLibrary } from './onnx-runtime-library.ts';
export { type RegisterPeak, registerPeak } from './register-peak.ts';

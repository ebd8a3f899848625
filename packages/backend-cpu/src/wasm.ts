export { type WasmOptions, wasm } from './wasm-backend.ts';
export type { CpuBackend } from './cpu-backend.ts';
export type { LoopsBy } from './engines/loops/loops.ts';
export type { ArenaUsage } from './memory/arena.ts';
export type { ProductsBy } from './engines/products/products.ts';

export { type WasmOptions, wasm } from './wasm/backend.ts';
export type { CpuBackend } from './cpu-backend.ts';
export type { LoopsBy } from './loops/loops.ts';
export type { ArenaUsage } from './memory/arena.ts';
export type { ProductsBy } from './products/products.ts';

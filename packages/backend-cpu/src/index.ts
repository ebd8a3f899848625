export { cpu, type CpuOptions } from './cpu.ts';
export type { CpuBackend } from './cpu-backend.ts';
export type { LoopsBy } from './loops/loops.ts';
export type { ArenaUsage } from './memory/arena.ts';
export type { ProductInstructions } from './products/product-machine.ts';
export type { ProductsBy } from './products/products.ts';
export { type RegisterPeak, registerPeak } from './register-peak.ts';

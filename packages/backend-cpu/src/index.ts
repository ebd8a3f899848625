export { cpu, type CpuOptions } from './cpu.ts';
export type { CpuBackend } from './cpu-backend.ts';
export type { ArenaUsage } from './memory/arena.ts';
export { type RegisterPeak, registerPeak } from './products/register-peak.ts';

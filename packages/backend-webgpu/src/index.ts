export { webgpu, type WebGpuOptions } from './webgpu.ts';
export type { WebGpuBackend } from './webgpu-backend.ts';

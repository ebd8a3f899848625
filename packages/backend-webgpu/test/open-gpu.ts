import { findGpu } from '../src/find-gpu.ts';

/** A WebGPU device with the adapter's usual limits. */
export async function openGpu(): Promise<GPUDevice> {
  const adapter = await (await findGpu()).requestAdapter();
  const gpu = await adapter?.requestDevice();
  if (gpu === undefined) throw new Error('no device');
  return gpu;
}

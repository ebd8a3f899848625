import { bufferUsage } from '../src/device/gpu-constants.ts';
import { openGpu } from './open-gpu.ts';
import { WebGpuBackend } from '../src/webgpu-backend.ts';

/** A device whose bindings are limited to a number of bytes. It also records what its kernels have bound so far. */
export interface DeviceOfSmallBindings {
  readonly device: WebGpuBackend;
  /** The underlying WebGPU device. */
  readonly gpu: GPUDevice;
  /** The size in bytes of the largest storage binding. */
  largestBinding: number;
  /** The number of bind groups in which at least one binding is a part of a buffer. */
  parts: number;
}

export async function createSmallBindings(bindingBytes: number): Promise<DeviceOfSmallBindings> {
  const gpu = await openGpu();
  const bind = gpu.createBindGroup.bind(gpu);
  gpu.createBindGroup = (descriptor) => {
    const bound = [...descriptor.entries].flatMap(({ resource }) =>
      'buffer' in resource && (resource.buffer.usage & bufferUsage.storage) !== 0
        ? [{ whole: resource.buffer.size, size: resource.size ?? resource.buffer.size }]
        : [],
    );
    created.largestBinding = Math.max(created.largestBinding, ...bound.map(({ size }) => size));
    if (bound.some(({ whole, size }) => size < whole)) created.parts += 1;
    return bind(descriptor);
  };
  const device = new WebGpuBackend(gpu, {
    adapter: 'small bindings',
    memoryBytes: 2 ** 30,
    bindingBytes,
    submissionMs: 250,
    timeoutMs: 60_000,
  });
  const created: DeviceOfSmallBindings = { device, gpu, largestBinding: 0, parts: 0 };
  return created;
}

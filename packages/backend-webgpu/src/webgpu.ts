import { BackendError, checkOptions, option, type OptionRules } from '@shardwise/core/spec';
import { findGpu } from './find-gpu.ts';
import { WebGpuBackend } from './webgpu-backend.ts';

export interface WebGpuOptions {
  /** Which of several adapters; default: the one that the host gives first. */
  readonly powerPreference?: 'low-power' | 'high-performance';
  /** Bytes of buffers, at most: no device says how much memory is free. Default: 4 GiB. */
  readonly memoryBytes?: number;
}

const rules: OptionRules<WebGpuOptions> = {
  powerPreference: option.oneOf('low-power', 'high-performance'),
  memoryBytes: option.count,
};

const defaultMemoryBytes = 2 ** 32;
const leastBuffers = 8;

/**
 * A device of WebGPU: the browser's, or in Node that of the optional package `webgpu`. Throws ConfigError, and BackendError where
 * there is none.
 */
export async function webgpu(options: WebGpuOptions = {}): Promise<WebGpuBackend> {
  checkOptions('webgpu', options, rules);
  const { powerPreference, memoryBytes = defaultMemoryBytes } = options;
  const gpu = await findGpu();
  const adapter = await gpu.requestAdapter(
    powerPreference === undefined ? {} : { powerPreference },
  );
  if (adapter === null) throw noAdapter();
  const { limits, info } = adapter;
  const device = await adapter.requestDevice({
    requiredLimits: {
      maxBufferSize: limits.maxBufferSize,
      maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
      maxStorageBuffersPerShaderStage: Math.max(
        leastBuffers,
        limits.maxStorageBuffersPerShaderStage,
      ),
      maxComputeWorkgroupStorageSize: limits.maxComputeWorkgroupStorageSize,
      maxComputeInvocationsPerWorkgroup: limits.maxComputeInvocationsPerWorkgroup,
    },
  });
  const name = [info.vendor, info.architecture, info.device, info.description]
    .filter(Boolean)
    .join(' ');
  return new WebGpuBackend(device, name, memoryBytes);
}

function noAdapter(): BackendError {
  return new BackendError({
    asked: 'a device of WebGPU',
    found: 'this host has no adapter',
    todo: 'Install a driver of the GPU that WebGPU can use, or use another backend',
  });
}

import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import { BackendError } from '@shardwise/core/spec';
import { BINDING_ALIGNMENT_BYTES } from './device/gpu-constants.ts';
import { findGpu } from './find-gpu.ts';
import { WebGpuBackend } from './webgpu-backend.ts';

/** Options of `webgpu`. */
export interface WebGpuOptions {
  /**
   * A part of the adapter's name, such as 'NVIDIA' or 'Radeon', so that each of several ranks uses another GPU.
   * Only in Node.
   */
  readonly adapter?: string;
  /** Which of several adapters to use. Default: the first one of the host. */
  readonly powerPreference?: 'low-power' | 'high-performance';
  /** The most bytes of all buffers together. Devices do not tell how much memory is free. Default: 4 GiB. */
  readonly memoryBytes?: number;
  /** The most bytes of one buffer, to try a program for a smaller device. Default: the limit of this device. */
  readonly bufferBytes?: number;
  /**
   * The most bytes of a buffer that a kernel sees in one binding, to try a program for a smaller device. Default: the
   * limit of this device.
   */
  readonly bindingBytes?: number;
  /**
   * The memory in which values wait that are sent to other ranks. In a shared memory, it is the region of this rank,
   * which the other ranks read without a copy. Default: new memory of its own.
   */
  readonly memory?: WebAssembly.Memory;
  /** Where the region begins. Default: 0. */
  readonly byteOffset?: number;
  /** The length of the region in bytes. Default: all of `memory`. */
  readonly byteLength?: number;
  /** The most milliseconds that one submission should take. Longer work is divided. Default: 250. */
  readonly submissionMs?: number;
  /** Milliseconds after which a device that still works on one submission is given up. Default: 60,000. */
  readonly timeoutMs?: number;
}

const rules: OptionRules<WebGpuOptions> = {
  adapter: option.nonEmptyText,
  powerPreference: option.oneOf('low-power', 'high-performance'),
  memoryBytes: option.count,
  bufferBytes: option.integer(BINDING_ALIGNMENT_BYTES),
  bindingBytes: option.integer(BINDING_ALIGNMENT_BYTES),
  memory: option.instanceOf(WebAssembly.Memory),
  byteOffset: option.count,
  byteLength: option.count,
  submissionMs: option.count,
  timeoutMs: option.count,
};

const DEFAULT_MEMORY_BYTES = 2 ** 32;
const DEFAULT_SUBMISSION_MS = 250;
const DEFAULT_TIMEOUT_MS = 60_000;
const MIN_BUFFERS = 8;

/**
 * A WebGPU device: the one of the browser, or in Node the one of the optional package `webgpu`. Throws
 * ConfigError for options that do not fit, and BackendError if there is no device.
 */
export async function webgpu(options: WebGpuOptions = {}): Promise<WebGpuBackend> {
  checkOptions('webgpu', options, rules);
  const {
    adapter: wanted,
    powerPreference,
    memoryBytes = DEFAULT_MEMORY_BYTES,
    bufferBytes,
    bindingBytes,
    memory,
    byteOffset,
    byteLength,
    submissionMs = DEFAULT_SUBMISSION_MS,
    timeoutMs = DEFAULT_TIMEOUT_MS,
  } = options;
  const gpu = await findGpu(wanted);
  const adapter = await gpu
    .requestAdapter(powerPreference === undefined ? {} : { powerPreference })
    .catch((cause: unknown) => {
      // Dawn rejects if no name fits, and says which names there are.
      throw noAdapter(wanted, cause);
    });
  if (adapter === null) throw noAdapter(wanted);
  const { features, limits, info } = adapter;
  const optional = (['timestamp-query', 'shader-f16'] as const).filter((feature) =>
    features.has(feature),
  );
  const device = await adapter.requestDevice({
    requiredFeatures: optional,
    requiredLimits: {
      maxBufferSize: limits.maxBufferSize,
      maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
      maxStorageBuffersPerShaderStage: Math.max(
        MIN_BUFFERS,
        limits.maxStorageBuffersPerShaderStage,
      ),
      maxComputeWorkgroupStorageSize: limits.maxComputeWorkgroupStorageSize,
      maxComputeInvocationsPerWorkgroup: limits.maxComputeInvocationsPerWorkgroup,
    },
  });
  const name = [info.vendor, info.architecture, info.device, info.description]
    .filter(Boolean)
    .join(' ');
  return new WebGpuBackend(device, {
    adapter: name,
    isProcessor: info.isFallbackAdapter || info.architecture === 'swiftshader',
    memoryBytes,
    bufferBytes,
    bindingBytes,
    ...(memory === undefined ? {} : { host: { memory, byteOffset, byteLength } }),
    submissionMs,
    timeoutMs,
  });
}

function noAdapter(wanted: string | undefined, cause?: unknown): BackendError {
  const said = cause instanceof Error ? `: ${cause.message.trim()}` : '';
  return new BackendError(
    {
      asked: 'a device of WebGPU',
      found: `this host has no adapter${wanted === undefined ? '' : ` with '${wanted}' in its name`}${said}`,
      todo: 'Install a driver of the GPU that WebGPU can use, or use another backend',
    },
    wanted === undefined ? {} : { adapter: wanted },
    cause === undefined ? {} : { cause },
  );
}

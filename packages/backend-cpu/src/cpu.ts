import { checkOptions, option, type OptionRules } from '@shardwise/core/spec';
import { CpuBackend } from './cpu-backend.ts';
import { Arena } from './memory/arena.ts';
import { createMemory } from './memory/create-memory.ts';
import { adviseHugePages } from './memory/huge-pages.ts';
import { configureCalls } from './onnx/runtime/call-threads.ts';

export interface CpuOptions {
  /** Where tensors live; must not grow afterwards. Default: a shared memory of its own, up to 4 GiB. */
  readonly memory?: WebAssembly.Memory;
  /** The part of `memory` to use; the rest is left alone. Default: all of it. */
  readonly byteOffset?: number;
  readonly byteLength?: number;
  /** Threads of ONNX Runtime's kernels. Default 1: ranks of one host share its cores. */
  readonly threads?: number;
}

const cpuRules: OptionRules<CpuOptions> = {
  memory: option.instanceOf(WebAssembly.Memory),
  byteOffset: option.count,
  byteLength: option.count,
  threads: option.integer(1),
};

/** The CPU of this host: ONNX Runtime and WebAssembly SIMD kernels over one arena. Throws ConfigError. */
export async function cpu(options: CpuOptions = {}): Promise<CpuBackend> {
  checkOptions('cpu', options, cpuRules);
  const { threads = 1, memory = createMemory(), byteOffset, byteLength } = options;
  const arena = new Arena(memory, byteOffset, byteLength);
  configureCalls();
  adviseHugePages(memory, arena.byteOffset, arena.capacityBytes);
  return new CpuBackend(arena, threads);
}

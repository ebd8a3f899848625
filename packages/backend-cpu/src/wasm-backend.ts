import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import { ConfigError } from '@shardwise/core/spec';
import { CpuBackend } from './cpu-backend.ts';
import { Arena } from './memory/arena.ts';
import { createMemory } from './memory/create-memory.ts';
import { wasmParts } from './wasm-parts.ts';

/** Options of `wasm`. */
export interface WasmOptions {
  /** The memory for tensors. It must not grow afterwards. Default: a new memory. */
  readonly memory?: WebAssembly.Memory;
  /** Where the part of `memory` begins that is used. The rest is left alone. Default: 0. */
  readonly byteOffset?: number;
  /**
   * The length of this part, or of the new memory, in bytes. Default: all of `memory`, or 1 GiB for a new
   * memory.
   */
  readonly byteLength?: number;
}

const wasmRules: OptionRules<WasmOptions> = {
  memory: option.instanceOf(WebAssembly.Memory),
  byteOffset: option.count,
  byteLength: option.count,
};

/** The host may refuse a page that asks for more. Bytes that are not written take no memory. */
const DEFAULT_BYTES = 2 ** 30;

/**
 * A backend that computes on the CPU with WebAssembly alone, for pages and for systems where native code does not load.
 * Throws ConfigError for options that do not fit.
 */
export async function wasm(options: WasmOptions = {}): Promise<CpuBackend> {
  checkOptions('wasm', options, wasmRules);
  const { memory, byteOffset, byteLength } = options;
  if (memory === undefined && byteOffset !== undefined) {
    throw new ConfigError(
      {
        asked: `wasm with a byteOffset of ${byteOffset}`,
        found: 'no memory, of which this would be a part',
        todo: 'Pass the memory too, or byteLength alone',
      },
      { byteOffset },
    );
  }
  const arena = new Arena(
    memory ?? createMemory(byteLength ?? DEFAULT_BYTES),
    byteOffset,
    byteLength,
  );
  return new CpuBackend(wasmParts(arena, 'it was asked for'));
}

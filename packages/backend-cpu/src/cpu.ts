import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import { ConfigError } from '@shardwise/core/spec';
import { CpuBackend, type CpuParts } from './cpu-backend.ts';
import { Arena } from './memory/arena.ts';
import { type InstructionSet, instructionSets } from './emit/x64/instruction-sets.ts';
import { createMemory } from './memory/create-memory.ts';
import { wasmParts } from './wasm-parts.ts';

/** Options of `cpu`. */
export interface CpuOptions {
  /** The memory for tensors. It must not grow afterwards. Default: a new shared memory. */
  readonly memory?: WebAssembly.Memory;
  /** Where the part of `memory` begins that is used. The rest is left alone. Default: 0. */
  readonly byteOffset?: number;
  /**
   * The length of this part, or of the new memory, in bytes. Default: all of `memory`; for a new memory three
   * quarters of the machine's memory, at most 16 GiB (4 GiB on Windows). Bytes that are not used take no
   * memory. Addresses of up to 4 GiB have 32 bits, which is a little faster.
   */
  readonly byteLength?: number;
  /**
   * The number of threads for matrix products and ONNX Runtime's kernels. Default: 1, because the ranks of a
   * host share its cores.
   */
  readonly threads?: number;
  /**
   * What computes matrix products. 'own': machine code of this package, if the processor has AVX2 and the
   * system can run it. 'onnxruntime': ONNX Runtime always. Default: 'own'.
   */
  readonly products?: 'own' | 'onnxruntime';
  /**
   * Whether a row of a product of f32 has the same bits beside any other rows. Machine code then also computes products
   * with few rows, columns or terms and a large matrix, which ONNX Runtime computes faster, but sums in another order.
   * Generation has the bits of a training forward only on such a device. A notice says so if this processor has no
   * machine code. Default: false.
   */
  readonly batchInvariant?: boolean;
  /**
   * The newest instructions that machine code may use. Products of bf16 have other bits with AMX-BF16 than with
   * all other instructions, which agree. Products of f32 always have the same bits. Default: 'AMX-BF16', which
   * allows all instructions.
   */
  readonly instructions?: InstructionSet;
  /**
   * What runs loops over elements and rows. 'own': machine code of this package, if the processor has AVX2 and
   * the system can run it. 'webassembly': WebAssembly always. Default: 'own'.
   */
  readonly loops?: 'own' | 'webassembly';
}

const cpuRules: OptionRules<CpuOptions> = {
  memory: option.instanceOf(WebAssembly.Memory),
  byteOffset: option.count,
  byteLength: option.count,
  threads: option.integer(1),
  products: option.oneOf('own', 'onnxruntime'),
  batchInvariant: option.flag,
  instructions: option.oneOf(...instructionSets),
  loops: option.oneOf('own', 'webassembly'),
};

/**
 * The CPU of this host. It computes with ONNX Runtime, machine code and WebAssembly SIMD kernels in one arena.
 * If native code does not load, for example on systems without a library of ONNX Runtime, WebAssembly computes
 * everything, and a notice says so. Throws ConfigError for options that do not fit, and BackendError if native
 * code does not load and an option asks for it.
 */
export async function cpu(options: CpuOptions = {}): Promise<CpuBackend> {
  checkOptions('cpu', options, cpuRules);
  const { threads = 1, products = 'own', loops = 'own', byteOffset, byteLength } = options;
  const { instructions = instructionSets[0], batchInvariant = false } = options;
  if (batchInvariant && products === 'onnxruntime') throw notInvariant();
  if (options.memory === undefined && byteOffset !== undefined) throw nothingToShare(byteOffset);
  const memory = options.memory ?? createMemory(byteLength);
  const arena = new Arena(memory, byteOffset, byteLength);
  const load = async (): Promise<CpuParts> => {
    const { nativeParts } = await import('./native-parts.ts');
    return nativeParts(arena, { threads, products, instructions, loops, batchInvariant });
  };
  const chosen = [options.products, options.instructions, options.loops];
  const isChosen = chosen.some((choice) => choice !== undefined);
  return new CpuBackend(isChosen ? await load() : await nativeOrWasm(arena, load));
}

function notInvariant(): ConfigError {
  return new ConfigError({
    asked: 'cpu with batchInvariant: true',
    found: "products: 'onnxruntime', which sums in an order that depends on the number of rows",
    todo: 'Leave one of them out',
  });
}

function nothingToShare(byteOffset: number): ConfigError {
  return new ConfigError(
    {
      asked: `cpu with a byteOffset of ${byteOffset}`,
      found: 'no memory, of which this would be a part',
      todo: 'Pass the memory too, or byteLength alone',
    },
    { byteOffset },
  );
}

/**
 * Returns the parts that `load` gives. If native code does not load, warns, and returns parts that only use
 * WebAssembly.
 */
export async function nativeOrWasm(arena: Arena, load: () => Promise<CpuParts>): Promise<CpuParts> {
  try {
    return await load();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    console.warn(
      `shardwise: WebAssembly alone computes on the CPU, as native code does not load: ${reason}`,
    );
    return wasmParts(arena, reason);
  }
}

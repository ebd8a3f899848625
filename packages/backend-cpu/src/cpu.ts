import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/spec';
import { CpuBackend, type CpuParts } from './cpu-backend.ts';
import { Arena } from './memory/arena.ts';
import { type InstructionSet, instructionSets } from './machine-code/instruction-sets.ts';
import { createMemory } from './memory/create-memory.ts';
import { nativeOrWasm } from './native-or-wasm.ts';

/** Options of `cpu`. */
export interface CpuOptions {
  /** Where tensors live; must not grow afterwards. Default: a shared memory of its own. */
  readonly memory?: WebAssembly.Memory;
  /** Where the part of `memory` begins that is used; the rest is left alone. Default: 0. */
  readonly byteOffset?: number;
  /**
   * Bytes of that part, or of a memory of its own. Default: what `memory` has, or three quarters of what the
   * machine has, at most 16 GiB (4 GiB on Windows); what is not used takes none of it. Up to 4 GiB addresses have 32 bits, which is
   * a little faster.
   */
  readonly byteLength?: number;
  /** Threads of products, and of ONNX Runtime's kernels. Default 1: ranks of one host share its cores. */
  readonly threads?: number;
  /**
   * What makes products of matrices: machine code of ours, where the processor has AVX2 and the system runs it, or
   * ONNX Runtime everywhere. Default: 'own'.
   */
  readonly products?: 'own' | 'onnxruntime';
  /**
   * The newest instructions that products and loops of ours are made of, where the processor has them. 'AVX512-BF16' and those behind it
   * give products of bf16 the same bits as each other, AMX-BF16 gives others; products of f32 have the same bits by all.
   * Default: 'AMX-BF16', which is all that there are.
   */
  readonly instructions?: InstructionSet;
  /**
   * What runs loops over elements and rows: machine code of ours, where the processor has AVX2 and the system runs it, or
   * WebAssembly everywhere. Default: 'own'.
   */
  readonly loops?: 'own' | 'webassembly';
}

const cpuRules: OptionRules<CpuOptions> = {
  memory: option.instanceOf(WebAssembly.Memory),
  byteOffset: option.count,
  byteLength: option.count,
  threads: option.integer(1),
  products: option.oneOf('own', 'onnxruntime'),
  instructions: option.oneOf(...instructionSets),
  loops: option.oneOf('own', 'webassembly'),
};

/**
 * The CPU of this host: ONNX Runtime, machine code and WebAssembly SIMD kernels over one arena. Where native code does not load,
 * as on systems that ONNX Runtime has no library for, WebAssembly computes everything, after a notice. Throws ConfigError,
 * and BackendError where native code does not load and an option asks for it.
 */
export async function cpu(options: CpuOptions = {}): Promise<CpuBackend> {
  checkOptions('cpu', options, cpuRules);
  const { threads = 1, products = 'own', loops = 'own', byteOffset, byteLength } = options;
  const { instructions = instructionSets[0] } = options;
  if (options.memory === undefined && byteOffset !== undefined) throw nothingToShare(byteOffset);
  const memory = options.memory ?? createMemory(byteLength);
  const arena = new Arena(memory, byteOffset, byteLength);
  const load = async (): Promise<CpuParts> => {
    const { nativeParts } = await import('./native-parts.ts');
    return nativeParts(arena, { threads, products, instructions, loops });
  };
  const chosen = [options.products, options.instructions, options.loops];
  const isChosen = chosen.some((choice) => choice !== undefined);
  return new CpuBackend(isChosen ? await load() : await nativeOrWasm(arena, load));
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

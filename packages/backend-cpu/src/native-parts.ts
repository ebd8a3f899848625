import type { CpuParts } from './cpu-backend.ts';
import type { Arena } from './memory/arena.ts';
import { adviseHugePages, returnFreedMemory } from './memory/c-library.ts';
import { onnxFallback } from './engines/onnx/onnx-fallback.ts';
import { configureCalls } from './memory/native-calls.ts';
import { libraryPath } from './engines/onnx/runtime/library-path.ts';
import { Sessions } from './engines/onnx/sessions.ts';
import { createProducts, type ProductsOptions } from './engines/create-products.ts';
import { createLoops } from './engines/loops/loops.ts';

export interface NativeOptions extends ProductsOptions {
  readonly loops: 'own' | 'webassembly';
}

/**
 * The parts of a backend that computes with native code. Throws BackendError if ONNX Runtime has no library for this
 * system.
 */
export function nativeParts(arena: Arena, options: NativeOptions): CpuParts {
  const { threads, loops, instructions, batchInvariant = false } = options;
  const onnx = onnxFallback(new Sessions(threads));
  libraryPath();
  configureCalls();
  returnFreedMemory();
  adviseHugePages(arena.memory, arena.byteOffset, arena.capacityBytes);
  return {
    name: 'cpu',
    arena,
    products: createProducts(arena, options),
    loops: createLoops(loops, instructions),
    // What either may compute is chosen by its size, on which bits must not depend then.
    fallback: batchInvariant ? { ...onnx, isChoice: () => false } : onnx,
  };
}

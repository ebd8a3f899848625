import type { CpuParts } from './cpu-backend.ts';
import { createLoops } from './loops/create-loops.ts';
import type { Arena } from './memory/arena.ts';
import { adviseHugePages } from './memory/huge-pages.ts';
import { returnFreedMemory } from './memory/return-freed-memory.ts';
import { onnxRest } from './onnx/onnx-rest.ts';
import { configureCalls } from './onnx/runtime/call-threads.ts';
import { libraryPath } from './onnx/runtime/library-path.ts';
import { Sessions } from './onnx/sessions.ts';
import { createProducts, type ProductsOptions } from './products/create-products.ts';

export interface NativeOptions extends ProductsOptions {
  readonly loops: 'own' | 'webassembly';
}

/**
 * The parts of a backend that computes with native code. Throws BackendError if ONNX Runtime has no library for this
 * system.
 */
export function nativeParts(arena: Arena, options: NativeOptions): CpuParts {
  const { threads, loops, instructions } = options;
  libraryPath();
  configureCalls();
  returnFreedMemory();
  adviseHugePages(arena.memory, arena.byteOffset, arena.capacityBytes);
  return {
    name: 'cpu',
    arena,
    products: createProducts(arena, options),
    loops: createLoops(loops, instructions),
    rest: onnxRest(new Sessions(threads)),
  };
}

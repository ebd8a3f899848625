import type { CpuParts } from './cpu-backend.ts';
import type { Arena } from './memory/arena.ts';
import { plainFallback } from './engines/plain/plain-fallback.ts';
import { wasmProducts } from './engines/products/wasm-products.ts';

/** The parts of a backend that only computes with WebAssembly and JavaScript. */
export function wasmParts(arena: Arena, reason: string): CpuParts {
  return {
    name: 'wasm',
    arena,
    products: wasmProducts(arena, reason),
    loops: { by: { by: 'webassembly', reason }, code: null },
    fallback: plainFallback(arena),
  };
}

import type { LoopsBy } from './engines/loops/loops.ts';
import type { ProductsBy } from './engines/products/products.ts';

/**
 * Says what computes a backend's matrix products and what runs its loops. Where this is not machine code, it says why.
 */
export function describe(name: 'cpu' | 'wasm', products: ProductsBy, loops: LoopsBy): string {
  return `${name}: ${describeProducts(products)}; ${describeLoops(loops)}`;
}

function describeProducts(products: ProductsBy): string {
  if (products.by !== 'own') return `products by ${names[products.by]}, as ${products.reason}`;
  const { f32, bf16 } = products.instructions;
  return `products in machine code (${f32}, bf16 by ${bf16})`;
}

function describeLoops(loops: LoopsBy): string {
  if (loops.by !== 'own') return `loops by ${names[loops.by]}, as ${loops.reason}`;
  const { instructions, refusal } = loops;
  const later = refusal === undefined ? '' : `, new ones by WebAssembly, as ${refusal}`;
  return `loops in machine code (${instructions})${later}`;
}

const names = { onnxruntime: 'ONNX Runtime', webassembly: 'WebAssembly' } as const;

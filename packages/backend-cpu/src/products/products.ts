import type { CompiledPiece } from '../compile/compiled-piece.ts';
import { callThreads } from '../onnx/runtime/call-threads.ts';
import type { BatchedProduct } from './batched-product.ts';
import { packedBytes } from './plan-tasks.ts';
import { alignedBytes, productMachine } from './product-machine.ts';
import { ProductPiece, type ProductResources } from './product-piece.ts';

/** What makes the products of matrices of a backend. */
export interface Products {
  /** Which of them are ours; null where ONNX Runtime makes all. */
  readonly own: { readonly bf16: boolean } | null;
  /** Why none is ours; null where some are. */
  readonly reason: string | null;
  link(memory: WebAssembly.Memory, products: readonly BatchedProduct[]): CompiledPiece;
}

/** `threads` is how many threads one product may take. */
export function createProducts(choice: 'own' | 'onnxruntime', threads: number): Products {
  if (choice === 'onnxruntime') return withoutOwn('ONNX Runtime was asked for');
  const machine = productMachine();
  if (machine.kind === 'none') return withoutOwn(machine.reason);
  let resources: ProductResources | undefined;
  return {
    own: { bf16: machine.bf16 },
    reason: null,
    link: (memory, products) => {
      resources ??= {
        code: machine.code,
        packed: Array.from({ length: threads }, () => alignedBytes(packedBytes)),
        canOverlap: callThreads(),
      };
      return new ProductPiece(memory, products, resources);
    },
  };
}

function withoutOwn(reason: string): Products {
  return {
    own: null,
    reason,
    link: () => {
      throw new RangeError('no products are ours');
    },
  };
}

import type { CompiledPiece } from '../compile/compiled-piece.ts';
import { callThreads } from '../onnx/runtime/call-threads.ts';
import type { BatchedProduct } from './batched-product.ts';
import { packedBytes } from './plan-tasks.ts';
import { alignedBytes, type ProductInstructions, productMachine } from './product-machine.ts';
import { ProductPiece, type ProductResources } from './product-piece.ts';

/** What makes products of matrices, and why ONNX Runtime does where it does. */
export type ProductsBy =
  | { readonly by: 'own'; readonly instructions: ProductInstructions }
  | { readonly by: 'onnxruntime'; readonly reason: string };

/** What makes the products of matrices of a backend. */
export interface Products {
  readonly by: ProductsBy;
  /** Which of them are ours; null where ONNX Runtime makes all. */
  readonly own: { readonly bf16: boolean } | null;
  link(memory: WebAssembly.Memory, product: BatchedProduct): CompiledPiece;
}

/** `threads` is how many threads one product may take. */
export function createProducts(choice: 'own' | 'onnxruntime', threads: number): Products {
  if (choice === 'onnxruntime') return withoutOwn('it was asked for');
  const machine = productMachine();
  if (machine.kind === 'none') return withoutOwn(machine.reason);
  let resources: ProductResources | undefined;
  return {
    by: { by: 'own', instructions: machine.instructions },
    own: { bf16: machine.instructions.bf16 !== null },
    link: (memory, product) => {
      resources ??= {
        code: machine.code,
        threads,
        packedOf: packedMemory(),
        canOverlap: callThreads(),
      };
      return new ProductPiece(memory, product, resources);
    },
  };
}

/** One memory for each thread, which is replaced where more is needed; who has the former keeps it. */
function packedMemory(): ProductResources['packedOf'] {
  const memories: Uint8Array[] = [];
  return (thread, byteLength) => {
    const known = memories[thread];
    if (known !== undefined && known.byteLength >= byteLength) return known;
    const larger = alignedBytes(Math.max(packedBytes, byteLength));
    memories[thread] = larger;
    return larger;
  };
}

function withoutOwn(reason: string): Products {
  return {
    by: { by: 'onnxruntime', reason },
    own: null,
    link: () => {
      throw new RangeError('no products are ours');
    },
  };
}

import type { AttentionWork } from '../attention/attention-work.ts';
import type { AttentionPlanning } from '../compile/attention-planning.ts';
import type { CompiledPiece } from '../compile/compiled-piece.ts';
import type { LoopCode } from '../loops/loop-code.ts';
import type { BatchedProduct } from './batched-product.ts';
import type { Epilogue } from './block-loops.ts';
import type { ProductInstructions } from './product-machine.ts';
import type { GroupedProduct } from './grouped-product.ts';

/** What computes matrix products. If it is not machine code, it also says why. */
export type ProductsBy =
  | { readonly by: 'own'; readonly instructions: ProductInstructions }
  | { readonly by: 'onnxruntime' | 'webassembly'; readonly reason: string };

/** Computes the matrix products of a backend. */
export interface Products {
  readonly by: ProductsBy;
  /** Which products our machine code computes. Null if it computes none. */
  readonly own: { readonly bf16: boolean } | null;
  /** Computes attention block by block, with products and loops. Null if attention is decomposed before. */
  readonly attention: OwnAttention | null;
  /** Links a product. An epilogue is only given for a product of one matrix. */
  link(memory: WebAssembly.Memory, product: BatchedProduct, epilogue?: Epilogue): CompiledPiece;
  linkGrouped(memory: WebAssembly.Memory, product: GroupedProduct): CompiledPiece;
}

/** Computes attention in machine code. */
interface OwnAttention {
  readonly planning: AttentionPlanning;
  link(memory: WebAssembly.Memory, work: AttentionWork, loops: LoopCode): CompiledPiece;
}

import type { AttentionWork } from '../attention/attention-work.ts';
import type { AttentionPlanning } from '../compile/attention-planning.ts';
import type { CompiledPiece } from '../compile/compiled-piece.ts';
import type { LoopCode } from '../loops/loop-code.ts';
import type { BatchedProduct } from './batched-product.ts';
import type { Epilogue } from './block-loops.ts';
import type { ProductInstructions } from './product-machine.ts';
import type { GroupedProduct } from './grouped-product.ts';

/** What computes matrix products. If it is not machine code, the reason. */
export type ProductsBy =
  | { readonly by: 'own'; readonly instructions: ProductInstructions }
  | { readonly by: 'onnxruntime' | 'webassembly'; readonly reason: string };

/** What makes the products of matrices of a backend. */
export interface Products {
  readonly by: ProductsBy;
  /** Which of them are ours; null where ONNX Runtime makes all. */
  readonly own: { readonly bf16: boolean } | null;
  /** Attention by products and loops, block by block; null where it is decomposed before. */
  readonly attention: OwnAttention | null;
  /** With an epilogue for a product of one matrix alone. */
  link(memory: WebAssembly.Memory, product: BatchedProduct, epilogue?: Epilogue): CompiledPiece;
  linkGrouped(memory: WebAssembly.Memory, product: GroupedProduct): CompiledPiece;
}

/** What makes attention. */
export interface OwnAttention {
  readonly planning: AttentionPlanning;
  link(memory: WebAssembly.Memory, work: AttentionWork, loops: LoopCode): CompiledPiece;
}

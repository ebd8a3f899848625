import type { AttentionWork } from '../attention/attention-work.ts';
import type { BatchedProduct } from '../products/batched-product.ts';
import type { GroupedProduct } from '../products/grouped-product.ts';
import type { KernelPlan } from '../wasm/compile-kernels.ts';
import type { KernelCall } from '../wasm/kernel-call.ts';
import type { RestPiece } from './rest.ts';

/** A piece as plain data. */
export type AnalysedPiece =
  | { readonly kind: 'kernel'; readonly plan: KernelPlan }
  | {
      readonly kind: 'product';
      readonly product: BatchedProduct;
      /** Loops that run on each block of rows of the result, right after the block has been computed. */
      readonly epilogue: readonly KernelCall[];
    }
  | { readonly kind: 'grouped'; readonly product: GroupedProduct }
  | { readonly kind: 'attention'; readonly work: AttentionWork }
  | RestPiece;

import type { AttentionWork, PagedAttentionWork } from '../program/work/attention-work.ts';
import type { BatchedProduct } from '../program/work/batched-product.ts';
import type { GroupedProduct } from '../program/work/grouped-product.ts';
import type { KernelPlan } from '../kernels/plan-kernels.ts';
import type { KernelCall } from '../kernels/kernel-call.ts';
import type { FallbackPartition } from './partition/fallback-engine.ts';

/** A partition as plain data. */
export type AnalysedPartition =
  | { readonly kind: 'kernel'; readonly plan: KernelPlan }
  | {
      readonly kind: 'product';
      readonly product: BatchedProduct;
      /** Loops that run on each block of rows of the result, right after the block has been computed. */
      readonly epilogue: readonly KernelCall[];
    }
  | { readonly kind: 'grouped'; readonly product: GroupedProduct }
  | { readonly kind: 'attention'; readonly work: AttentionWork | PagedAttentionWork }
  | FallbackPartition;

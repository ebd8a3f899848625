import type { AttentionWork, PagedAttentionWork } from '../../program/work/attention-work.ts';
import type { AttentionPlanning } from '../../plan/attention/attention-planning.ts';
import type { BlockPlanning } from '../../plan/products/product-of.ts';
import type { LoopCode } from '../../lanes/loop-code.ts';
import type { BatchedProduct } from '../../program/work/batched-product.ts';
import type { Epilogue } from './block-loops.ts';
import type { ProductInstructions } from './product-machine.ts';
import type { GroupedProduct } from '../../program/work/grouped-product.ts';
import type { CompiledPartition } from '../../program/partition.ts';

/** What computes matrix products. If it is not machine code, it also says why. */
export type ProductsBy =
  | { readonly by: 'own'; readonly instructions: ProductInstructions }
  | { readonly by: 'onnxruntime' | 'webassembly'; readonly reason: string };

/** Computes the matrix products of a backend. */
export interface Products {
  readonly by: ProductsBy;
  /**
   * Which products our code computes. `thin`: whether it also computes those that ONNX Runtime computes faster. Null if it
   * computes none.
   */
  readonly own: {
    readonly bf16: boolean;
    readonly thin: boolean;
    /** Describes products with weights in blocks. Absent if they are decomposed before. */
    readonly blocks?: BlockPlanning;
  } | null;
  /** Computes attention block by block, with products and loops. Null if attention is decomposed before. */
  readonly attention: OwnAttention | null;
  /** Links a product. An epilogue is only given for a product of one matrix. */
  link(memory: WebAssembly.Memory, product: BatchedProduct, epilogue?: Epilogue): CompiledPartition;
  /** Loads the code for products of groups. Call it before `linkGrouped`. Absent: it is there. */
  loadGrouped?(): Promise<void>;
  linkGrouped(memory: WebAssembly.Memory, product: GroupedProduct): CompiledPartition;
}

/** Computes attention in machine code. */
interface OwnAttention {
  readonly planning: AttentionPlanning;
  link(
    memory: WebAssembly.Memory,
    work: AttentionWork | PagedAttentionWork,
    loops: LoopCode,
  ): CompiledPartition;
}

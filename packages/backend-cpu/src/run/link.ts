import type { LoopCode } from '../lanes/loop-code.ts';
import { blockLoopsOf } from '../engines/products/block-loops.ts';
import type { BatchedProduct } from '../program/work/batched-product.ts';
import type { KernelCall } from '../kernels/kernel-call.ts';
import { linkKernels } from '../kernels/link-kernels.ts';
import type { Products } from '../engines/products/products.ts';
import type { Analysis, Signature } from '../plan/analyse.ts';
import type { AnalysedPartition } from '../plan/analysed-partition.ts';
import type { CompiledFallbacks } from '../plan/partition/fallback-engine.ts';
import type { StoragePlan } from '../plan/storage.ts';
import type { CompiledPartition } from '../program/partition.ts';

/** A program at certain sizes, ready to run. */
export interface LinkedProgram {
  readonly signature: Signature;
  readonly partitions: readonly CompiledPartition[];
  readonly parts: Analysis['parts'];
  readonly storage: Pick<StoragePlan, 'copiesBefore' | 'copiesAfter' | 'firstUpdate'>;
}

/** The memory that a program runs in, what computes its products, and what runs its loops (null: WebAssembly). */
export interface LinkTarget {
  readonly memory: WebAssembly.Memory;
  readonly products: Products;
  readonly loops: LoopCode | null;
}

/** Makes a program runnable. `linkOne` links a partition, whose index is given. */
export function link(
  { signature, partitions, parts, storage }: Analysis,
  linkOne: (partition: AnalysedPartition, index: number) => CompiledPartition,
): LinkedProgram {
  return { signature, partitions: partitions.map(linkOne), parts, storage };
}

/** Makes a partition runnable. `compiled` is what runs it, if kernels or products do not. */
export function linkPartition(
  partition: AnalysedPartition,
  compiled: CompiledFallbacks[number] | undefined,
  { memory, products, loops }: LinkTarget,
): CompiledPartition {
  if (partition.kind === 'kernel') return linkKernels({ memory, loops }, partition.plan);
  if (partition.kind === 'product') {
    return linkProduct(partition.product, partition.epilogue, { memory, products, loops });
  }
  if (partition.kind === 'grouped') return products.linkGrouped(memory, partition.product);
  if (partition.kind === 'attention') {
    const { attention } = products;
    if (loops === null || attention === null) throw new RangeError('nothing makes attention');
    return attention.link(memory, partition.work, loops);
  }
  if (!compiled) throw new RangeError('nothing runs a partition');
  return compiled.link(memory, partition);
}

/**
 * Links a product with its epilogue. If machine code cannot run all loops of the epilogue, they run after the product.
 */
function linkProduct(
  product: BatchedProduct,
  epilogue: readonly KernelCall[],
  { memory, products, loops }: LinkTarget,
): CompiledPartition {
  if (epilogue.length === 0) return products.link(memory, product);
  const blockLoops = loops === null ? undefined : blockLoopsOf(epilogue, loops);
  if (loops !== null && blockLoops !== undefined) {
    return products.link(memory, product, { loops, calls: blockLoops });
  }
  const made = products.link(memory, product);
  const behind = linkKernels(
    { memory, loops },
    {
      calls: epilogue,
      copies: [],
      direct: new Map(),
      storage: [],
      keptRows: new Map(),
      inputCount: 0,
    },
  );
  return {
    run: async (addressOf, overlap) => {
      await made.run(addressOf, overlap);
      behind.run(addressOf);
    },
  };
}

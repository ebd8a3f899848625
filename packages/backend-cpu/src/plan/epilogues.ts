import type { KernelCall } from '../kernels/kernel-call.ts';
import type { KernelPlan } from '../kernels/plan-kernels.ts';
import { type BatchedProduct, matrixOf } from '../program/work/batched-product.ts';
import type { AnalysedPartition } from './analysed-partition.ts';

/**
 * Makes the loops over a product's elements that begin the next partition the product's epilogue. Such loops are
 * activations, their gradients, residuals, casts and dropout. They run on each block of rows right after it is
 * computed, while it is still in the cache.
 */
export function withEpilogues(
  partitions: readonly AnalysedPartition[],
): readonly AnalysedPartition[] {
  const results = [...partitions];
  for (const [index, partition] of partitions.entries()) {
    const next = partitions[index + 1];
    if (partition.kind !== 'product' || next?.kind !== 'kernel') continue;
    const { epilogue, calls } = divided(partition.product, next.plan);
    results[index] = { ...partition, epilogue };
    results[index + 1] = { ...next, plan: { ...next.plan, calls } };
  }
  return results;
}

/** Divides the calls of a plan into those that become the product's epilogue, and the others. */
function divided(
  product: BatchedProduct,
  { calls, direct }: KernelPlan,
): { readonly epilogue: readonly KernelCall[]; readonly calls: readonly KernelCall[] } {
  const matrix = matrixOf(product);
  const epilogue: KernelCall[] = [];
  const others: KernelCall[] = [];
  if (matrix === undefined) return { epilogue, calls };
  /** Values whose elements for a block of rows exist as soon as the block and its earlier epilogue calls are done. */
  const here = new Set([product.result]);
  const later = new Set<number>();
  for (const call of calls) {
    const { reads = [], values } = call;
    const read = values.slice(0, reads.length);
    const written = values.slice(reads.length);
    const isEpilogue =
      isByRows(call, matrix) &&
      read.some((value) => here.has(value)) &&
      read.every((value, at) => !here.has(value) || reads[at] === 'element') &&
      !values.some((value) => later.has(value) || direct.has(value));
    if (isEpilogue) {
      epilogue.push(call);
      for (const value of written) here.add(value);
    } else {
      others.push(call);
      // A call without `reads` does not say which of its values it writes, so all of them count as written.
      const made = call.reads === undefined ? values : written;
      for (const value of made) if (!here.has(value)) later.add(value);
    }
  }
  return { epilogue, calls: others };
}

/** Whether a loop may run on some rows of a matrix of these sizes at a time. */
function isByRows(
  { reads, sizes: [rows = 0, columns = 0] }: KernelCall,
  matrix: { readonly rows: number; readonly columns: number },
): boolean {
  if (reads === undefined) return false;
  if (rows === matrix.rows && columns === matrix.columns) return true;
  const isFlat = reads.every((access) => access === 'element' || access === 'scalar');
  return isFlat && rows * columns === matrix.rows * matrix.columns;
}

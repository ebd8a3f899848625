import type { KernelCall } from '../wasm/kernel-call.ts';
import type { KernelPlan } from '../wasm/compile-kernels.ts';
import { type BatchedProduct, matrixOf } from '../products/batched-product.ts';
import type { AnalysedPiece } from './analysed-piece.ts';

/**
 * Loops over the elements of a product that the piece behind it begins with become its epilogue, as activations, their
 * gradients, residuals, casts and dropout: they run on each block of rows that has been made, while it is near.
 */
export function withEpilogues(pieces: readonly AnalysedPiece[]): readonly AnalysedPiece[] {
  const results = [...pieces];
  for (const [index, piece] of pieces.entries()) {
    const next = pieces[index + 1];
    if (piece.kind !== 'product' || next?.kind !== 'kernel') continue;
    const { epilogue, calls } = divided(piece.product, next.plan);
    results[index] = { ...piece, epilogue };
    results[index + 1] = { ...next, plan: { ...next.plan, calls } };
  }
  return results;
}

/** The calls of a plan that a product takes along, and the others. */
function divided(
  product: BatchedProduct,
  { calls, direct }: KernelPlan,
): { readonly epilogue: readonly KernelCall[]; readonly calls: readonly KernelCall[] } {
  const matrix = matrixOf(product);
  const epilogue: KernelCall[] = [];
  const others: KernelCall[] = [];
  if (matrix === undefined) return { epilogue, calls };
  /** Values of which the elements of a block of rows are there with the block. */
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
      // Which of its values another kernel writes is not known.
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

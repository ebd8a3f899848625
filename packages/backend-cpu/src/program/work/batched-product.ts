import type { MatrixProduct } from './matrix-product.ts';
import { bytesOfPacking, bytesOfResult, type Packing, type ProductKind } from './product-kinds.ts';

/** Where the matrices of a batch lie in a value in memory. All strides are in elements. */
export interface BatchOperand {
  readonly value: number;
  readonly batchStrides: readonly number[];
  readonly rowStride: number;
  readonly columnStride: number;
  /** The dtype of the operand, and whether packing rounds it. */
  readonly packing: Packing;
}

/** Products of matrices as plain data. There is one product for each index of the batch. */
export interface BatchedProduct {
  readonly kind: ProductKind;
  readonly batch: readonly number[];
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  readonly left: BatchOperand;
  readonly right: BatchOperand;
  /** The value of the result, which lies in memory without gaps. */
  readonly result: number;
  readonly scale: number;
  readonly addend: { readonly value: number; readonly rowStride: number } | null;
  /** Whether f32 results are rounded to the precision of bf16. */
  readonly rounds: boolean;
}

/**
 * Returns the rows and columns of the result if this is one product of matrices. Returns undefined if it is several.
 */
export function matrixOf(
  product: BatchedProduct,
): { readonly rows: number; readonly columns: number } | undefined {
  const { batch, rows, columns } = withRowsOfBatch(product);
  return batch.length === 0 ? { rows, columns } : undefined;
}

/** Returns the products of single matrices that make up a batched product. */
export function productsOf(product: BatchedProduct): MatrixProduct[] {
  const { kind, batch, rows, columns, depth, left, right, scale, addend, rounds } =
    withRowsOfBatch(product);
  const resultBytes = bytesOfResult(kind);
  return indicesOf(batch).map((index, position) => {
    const matrixOf = (operand: BatchOperand): MatrixProduct['left'] => {
      const { batchStrides, rowStride, columnStride, packing } = operand;
      const elements = index.reduce((sum, at, dim) => sum + at * (batchStrides[dim] ?? 0), 0);
      return { byteOffset: bytesOfPacking(packing) * elements, rowStride, columnStride };
    };
    return {
      kind,
      leftPacking: left.packing,
      rightPacking: right.packing,
      rows,
      columns,
      depth,
      left: matrixOf(left),
      right: matrixOf(right),
      result: { byteOffset: resultBytes * position * rows * columns, rowStride: columns },
      scale,
      addend: addend === null ? null : { byteOffset: 0, rowStride: addend.rowStride },
      rounds,
    };
  });
}

/**
 * An f32 product with fewer rows, columns or terms than this reads or writes a large matrix for few multiplications.
 * ONNX Runtime computes such products faster, because it does not pack what is read only once. The limits depend on
 * whether ONNX Runtime can read the matrix that would be packed in the order of memory.
 */
const few = {
  rows: { inOrder: 32, otherwise: 2 },
  columns: { inOrder: 32, otherwise: 16 },
  terms: 24,
} as const;
/** From how many elements on packing or writing a matrix is what takes the time. */
const large = { right: 2 ** 18, left: 2 ** 16, result: 2 ** 20 } as const;

/**
 * Whether ONNX Runtime computes a product faster than we do. Measured on a Xeon with AMX for a matrix of 1024 x 1024,
 * ONNX Runtime takes this multiple of our time. 1 to 24 rows: 0.4 to 0.8 if the sums read along the right operand,
 * otherwise 1.1 to 1.3 from 8 rows on. 1 to 24 columns: 0.2 to 0.8. 1 to 24 terms: 0.7 to 1. On a Zen 5, if the sums do
 * not read along the right operand: a third for one row, and 1.6 to 1.9 for 2 to 7 rows. `bench matmul-rule` measures
 * this.
 */
export function isThin(product: BatchedProduct): boolean {
  const { kind, batch, rows, columns, depth, left, right } = withRowsOfBatch(product);
  if (kind !== 'f32 to f32' || right.packing !== 'f32') return false;
  const matrices = batch.reduce((all, size) => all * size, 1);
  const fewRows = right.rowStride === 1 ? few.rows.inOrder : few.rows.otherwise;
  const fewColumns = left.columnStride === 1 ? few.columns.inOrder : few.columns.otherwise;
  return (
    (rows < fewRows && matrices * depth * columns >= large.right) ||
    (columns < fewColumns && matrices * rows * depth >= large.left) ||
    (depth < few.terms && matrices * rows * columns >= large.result)
  );
}

/**
 * Merges dims of the batch into the rows. If all matrices of a dim are multiplied by the same matrix, and their rows
 * follow each other, they are one matrix.
 */
function withRowsOfBatch(product: BatchedProduct): BatchedProduct {
  const dim = product.batch.length - 1;
  const size = product.batch[dim];
  if (size === undefined) return product;
  const { left, right, rows } = product;
  const follows = left.batchStrides[dim] === rows * left.rowStride;
  if (size !== 1 && (!follows || right.batchStrides[dim] !== 0)) return product;
  const outer = <T extends BatchOperand>(operand: T): T => ({
    ...operand,
    batchStrides: operand.batchStrides.slice(0, dim),
  });
  return withRowsOfBatch({
    ...product,
    batch: product.batch.slice(0, dim),
    rows: rows * size,
    left: outer(left),
    right: outer(right),
  });
}

function indicesOf(batch: readonly number[]): number[][] {
  return batch.reduce<number[][]>(
    (indices, size) =>
      indices.flatMap((index) => Array.from({ length: size }, (_, at) => [...index, at])),
    [[]],
  );
}

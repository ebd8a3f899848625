import type { MatrixProduct } from './plan-tasks.ts';
import { bytesOfPacking, bytesOfResult, type Packing, type ProductKind } from './product-types.ts';

/** Where the matrices of a batch lie in a value in memory, in elements. */
export interface BatchOperand {
  readonly value: number;
  readonly batchStrides: readonly number[];
  readonly rowStride: number;
  readonly columnStride: number;
  /** Its dtype, and whether packing rounds it. */
  readonly packing: Packing;
}

/** Products of matrices, one for each index of the batch, as plain data. */
export interface BatchedProduct {
  readonly kind: ProductKind;
  readonly batch: readonly number[];
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  readonly left: BatchOperand;
  readonly right: BatchOperand;
  /** The value that is made, which lies in one piece. */
  readonly result: number;
  readonly scale: number;
  readonly addend: { readonly value: number; readonly rowStride: number } | null;
  /** Whether f32 results have the digits of bf16. */
  readonly rounds: boolean;
}

/** Its rows and columns where it is one product of matrices; undefined where it is several. */
export function matrixOf(
  product: BatchedProduct,
): { readonly rows: number; readonly columns: number } | undefined {
  const { batch, rows, columns } = withRowsOfBatch(product);
  return batch.length === 0 ? { rows, columns } : undefined;
}

/** The products of its matrices. */
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
 * Products of f32 with fewer rows, columns or terms than this read, or write, a large matrix for few multiplications, and
 * ONNX Runtime makes them faster: it does not pack what is read once. What is few depends on whether the matrix that is packed
 * lies such that ONNX Runtime reads it in order.
 */
const few = {
  rows: { inOrder: 32, otherwise: 2 },
  columns: { inOrder: 32, otherwise: 16 },
  terms: 24,
} as const;
/** Elements of matrices of which packing, or writing, is what takes time. */
const large = { right: 2 ** 18, left: 2 ** 16, result: 2 ** 20 } as const;

/**
 * Whether ONNX Runtime makes a product in less time. Measured on a Xeon with AMX: 1 to 24 rows of 1024 x 1024 take it 0.4 to 0.8 times as
 * long where the sums read along the right operand, 1.1 to 1.3 times as long otherwise from 8 rows on; 1 to 24 columns 0.2 to 0.8
 * times, as many terms 0.7 to 1. On a Zen 5, otherwise: one row a third, 2 to 7 rows 1.6 to 1.9 times as long. `bench matmul-rule` measures it.
 */
export function isThin(product: BatchedProduct): boolean {
  const { kind, batch, rows, columns, depth, left, right } = withRowsOfBatch(product);
  if (kind !== 'f32 to f32') return false;
  const matrices = batch.reduce((all, size) => all * size, 1);
  const fewRows = right.rowStride === 1 ? few.rows.inOrder : few.rows.otherwise;
  const fewColumns = left.columnStride === 1 ? few.columns.inOrder : few.columns.otherwise;
  return (
    (rows < fewRows && matrices * depth * columns >= large.right) ||
    (columns < fewColumns && matrices * rows * depth >= large.left) ||
    (depth < few.terms && matrices * rows * columns >= large.result)
  );
}

/** Where all matrices are multiplied with the same one, and their rows follow each other, they are one matrix. */
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

import type { MatrixProduct } from './plan-tasks.ts';
import type { Packing, ProductKind } from './product-types.ts';

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
}

const elementBytes = (packing: Packing): number => (packing === 'bf16' ? 2 : 4);

/** The products of its matrices. */
export function productsOf(product: BatchedProduct): MatrixProduct[] {
  const { kind, batch, rows, columns, depth, left, right, scale, addend } =
    withRowsOfBatch(product);
  const resultBytes = kind === 'bf16 to bf16' ? 2 : 4;
  return indicesOf(batch).map((index, position) => {
    const matrixOf = (operand: BatchOperand): MatrixProduct['left'] => {
      const { batchStrides, rowStride, columnStride, packing } = operand;
      const elements = index.reduce((sum, at, dim) => sum + at * (batchStrides[dim] ?? 0), 0);
      return { byteOffset: elementBytes(packing) * elements, rowStride, columnStride };
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
    };
  });
}

/** Sizes below this are thin, in products of at least so many multiplications. */
const thinSize = 32;
const largeWork = 2 ** 18;

/**
 * Whether packing takes longer than what it saves: large products of f32 with few rows, columns, or terms. Measured: with
 * fewer than 32 rows or columns of 1024 x 1024, ONNX Runtime takes 0.4 to 0.9 times as long, with fewer terms 0.6 to 0.8.
 */
export function isThin(product: BatchedProduct): boolean {
  const { kind, batch, rows, columns, depth } = withRowsOfBatch(product);
  const work = batch.reduce((all, size) => all * size, rows * columns * depth);
  return kind === 'f32 to f32' && Math.min(rows, columns, depth) < thinSize && work >= largeWork;
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

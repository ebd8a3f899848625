import type { MatrixProduct } from './matrix-product.ts';
import { bytesOfPacking, bytesOfResult, type Packing, type ProductKind } from './product-kinds.ts';

/** A value that lies in memory without gaps. */
export interface GroupedOperand {
  readonly value: number;
  /** The dtype of the operand, and whether packing rounds it. */
  readonly packing: Packing;
}

/**
 * Products of rows in groups, as plain data. Values lie in memory without gaps. Only a run knows where its groups end.
 */
export interface GroupedProduct {
  /**
   * 'groupedMatmul' multiplies each row by the matrix of its group. 'groupedMatmulWeight' multiplies the rows of both
   * operands, for each group.
   */
  readonly op: 'groupedMatmul' | 'groupedMatmulWeight';
  readonly kind: ProductKind;
  readonly left: GroupedOperand;
  readonly right: GroupedOperand;
  readonly counts: number;
  readonly result: number;
  readonly rows: number;
  readonly groups: number;
  /** The features of the left operand. `columns` are those of the right operand or the result. */
  readonly depth: number;
  readonly columns: number;
  /** Whether the last two dims of the groups' matrices are swapped in memory. */
  readonly transposeB: boolean;
  /** Whether f32 results are rounded to the precision of bf16. */
  readonly rounds: boolean;
}

/** Returns one product for each group that has rows. Shape: counts [groups]. */
export function productsOfGroups(
  product: GroupedProduct,
  counts: readonly number[],
): MatrixProduct[] {
  const { op, kind, left, right, depth, columns, transposeB, rounds } = product;
  const bytes = {
    left: bytesOfPacking(left.packing),
    right: bytesOfPacking(right.packing),
    result: bytesOfResult(kind),
  };
  const common = {
    kind,
    leftPacking: left.packing,
    rightPacking: right.packing,
    scale: 1,
    addend: null,
    rounds,
  } as const;
  let start = 0;
  return counts.flatMap((count, group): MatrixProduct[] => {
    const first = start;
    start += count;
    if (count === 0) return [];
    const matrix = group * depth * columns;
    const rowsOf = (
      of: keyof typeof bytes,
      width: number,
    ): { byteOffset: number; rowStride: number } => ({
      byteOffset: bytes[of] * first * width,
      rowStride: width,
    });
    if (op === 'groupedMatmul') {
      const strides = transposeB
        ? { rowStride: 1, columnStride: depth }
        : { rowStride: columns, columnStride: 1 };
      return [
        {
          ...common,
          rows: count,
          columns,
          depth,
          left: { ...rowsOf('left', depth), columnStride: 1 },
          right: { byteOffset: bytes.right * matrix, ...strides },
          result: rowsOf('result', columns),
        },
      ];
    }
    return [
      {
        ...common,
        rows: depth,
        columns,
        depth: count,
        left: { byteOffset: rowsOf('left', depth).byteOffset, rowStride: 1, columnStride: depth },
        right: { ...rowsOf('right', columns), columnStride: 1 },
        result: { byteOffset: bytes.result * matrix, rowStride: columns },
      },
    ];
  });
}

/**
 * Returns each stretch of the result that no product writes, as its first element and its number of elements. Shape:
 * counts [groups].
 */
export function untouchedBy(
  { op, rows, depth, columns }: GroupedProduct,
  counts: readonly number[],
): (readonly [first: number, length: number])[] {
  if (op === 'groupedMatmul') {
    const used = counts.reduce((sum, count) => sum + count, 0);
    return used < rows ? [[used * columns, (rows - used) * columns]] : [];
  }
  const size = depth * columns;
  return counts.flatMap((count, group) => (count === 0 ? [[group * size, size] as const] : []));
}

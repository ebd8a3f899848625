import type { MatrixProduct } from './plan-tasks.ts';

/** Products of rows in groups, as plain data. Values lie in one piece each; only a run knows where its groups end. */
export interface GroupedProduct {
  /** Each row times the matrix of its group; or the product of the rows of both operands, for each group. */
  readonly op: 'groupedMatmul' | 'groupedMatmulWeight';
  readonly left: number;
  readonly right: number;
  readonly counts: number;
  readonly result: number;
  readonly rows: number;
  readonly groups: number;
  /** Features of the left operand, and of the right one or the result. */
  readonly depth: number;
  readonly columns: number;
  /** Whether the matrices of the groups lie with their last two dims swapped. */
  readonly transposeB: boolean;
}

const bytes = 4;
const common = {
  kind: 'f32 to f32',
  leftPacking: 'f32',
  rightPacking: 'f32',
  scale: 1,
  addend: null,
  rounds: false,
} as const;

/** One product for each group that has rows. Shape: counts [groups]. */
export function productsOfGroups(
  product: GroupedProduct,
  counts: readonly number[],
): MatrixProduct[] {
  const { op, depth, columns, transposeB } = product;
  let start = 0;
  return counts.flatMap((count, group): MatrixProduct[] => {
    const first = start;
    start += count;
    if (count === 0) return [];
    const matrix = bytes * group * depth * columns;
    const rowsOf = (width: number): { byteOffset: number; rowStride: number } => ({
      byteOffset: bytes * first * width,
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
          left: { ...rowsOf(depth), columnStride: 1 },
          right: { byteOffset: matrix, ...strides },
          result: rowsOf(columns),
        },
      ];
    }
    return [
      {
        ...common,
        rows: depth,
        columns,
        depth: count,
        left: { byteOffset: rowsOf(depth).byteOffset, rowStride: 1, columnStride: depth },
        right: { ...rowsOf(columns), columnStride: 1 },
        result: { byteOffset: matrix, rowStride: columns },
      },
    ];
  });
}

/** The first and the number of elements of each stretch of the result that no product writes. Shape: counts [groups]. */
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

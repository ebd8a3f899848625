import { BackendError } from '@shardwise/core/spec';
import { type GroupedProduct, untouchedBy } from '../../program/work/grouped-product.ts';
import { bytesOfResult } from '../../program/work/product-kinds.ts';
import type { AddressOf } from '../../program/partition.ts';

/**
 * Reads how many rows each group of a product has, and writes zeros where no product of a group writes. Throws
 * BackendError for counts that cannot be numbers of rows.
 */
export function beginGroups(
  { buffer }: WebAssembly.Memory,
  product: GroupedProduct,
  addressOf: AddressOf,
): readonly number[] {
  const { op, kind, rows, groups, result } = product;
  const bytes = bytesOfResult(kind);
  const counts = [...new Int32Array(buffer, addressOf(product.counts), groups)];
  const sum = counts.reduce((total, count) => total + count, 0);
  if (sum > rows || counts.some((count) => count < 0)) {
    throw new BackendError(
      {
        asked: `${op} of ${rows} rows`,
        found: `counts of ${counts.join(', ')}, ${sum} in all`,
        todo: 'Give each group 0 rows or more, and all groups no more than there are',
      },
      { op, rows, counts },
    );
  }
  for (const [first, length] of untouchedBy(product, counts)) {
    new Uint8Array(buffer, addressOf(result) + bytes * first, bytes * length).fill(0);
  }
  return counts;
}

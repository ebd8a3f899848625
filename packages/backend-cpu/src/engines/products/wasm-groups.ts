import { type GroupedProduct, productsOfGroups } from '../../program/work/grouped-product.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import type { AddressOf } from '../../program/partition.ts';
import { beginGroups } from './begin-groups.ts';

// Products of rows in groups, which experts have. Pages load this file when a program has such products.

/** Begins the groups of a run, and returns the products of those that have rows. Throws BackendError for wrong counts. */
export function groupsOfRun(
  memory: WebAssembly.Memory,
  product: GroupedProduct,
  addressOf: AddressOf,
): readonly MatrixProduct[] {
  return productsOfGroups(product, beginGroups(memory, product, addressOf));
}

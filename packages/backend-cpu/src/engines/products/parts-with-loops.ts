import type { BlockLoop, CallAddress } from './block-loops.ts';
import { planTasksWithLoops } from './plan-tasks.ts';
import { partOf, type ProductPart, type ProductResources } from './run-parts.ts';
import { splitProducts } from './split-products.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import { bytesOfResult } from '../../program/work/product-kinds.ts';

/**
 * What one thread computes of a product and of the loops on its rows. `addresses` says which words of its tasks are
 * addresses that the loops take.
 */
export interface PartWithLoops {
  readonly part: ProductPart;
  readonly addresses: readonly CallAddress[];
}

/**
 * Divides a product into parts for threads. Each part has the loops that run on its rows, block by block. Returns
 * undefined if the threads divide the columns, because no block has whole rows then.
 */
export function partsWithLoops(
  product: MatrixProduct,
  loops: readonly BlockLoop[],
  resources: ProductResources,
): readonly PartWithLoops[] | undefined {
  const { code, threads, canOverlap } = resources;
  const split = splitProducts([product], canOverlap ? threads : 1, code);
  const rowBytes = bytesOfResult(product.kind) * product.result.rowStride;
  const parts: PartWithLoops[] = [];
  for (const [thread, [own]] of split.entries()) {
    if (own === undefined || own.columns !== product.columns) return undefined;
    const firstRow = (own.result.byteOffset - product.result.byteOffset) / rowBytes;
    const { words, addresses } = planTasksWithLoops(own, code, loops, firstRow);
    parts.push({ part: partOf([own], words, thread, resources), addresses });
  }
  return parts;
}

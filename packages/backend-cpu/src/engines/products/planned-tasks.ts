import type { ProductCode } from '../../emit/products/product-code.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import { planTasks } from './plan-tasks.ts';

/** How many bytes of tasks a backend keeps. The least recently used ones go first. */
const MAX_KEPT_BYTES = 2 ** 24;

/**
 * The tasks of products, which do not depend on where operands lie. Equal layers share them, and so do programs that are
 * linked for other sizes and have some products in common.
 */
export class PlannedTasks {
  readonly #code: ProductCode;
  readonly #maxBytes: number;
  /** The least recently used ones come first. */
  readonly #kept = new Map<string, BigUint64Array>();
  #keptBytes = 0;

  constructor(code: ProductCode, maxBytes: number = MAX_KEPT_BYTES) {
    this.#code = code;
    this.#maxBytes = maxBytes;
  }

  /** The tasks of these products, in the order in which they are carried out. Nobody may change them. */
  of(products: readonly MatrixProduct[]): BigUint64Array {
    const key = products.map(keyOf).join(';');
    const known = this.#kept.get(key);
    const tasks = known ?? planTasks(products, this.#code);
    this.#kept.delete(key);
    this.#kept.set(key, tasks);
    if (known === undefined) {
      this.#keptBytes += tasks.byteLength;
      this.#forget();
    }
    return tasks;
  }

  #forget(): void {
    for (const [key, { byteLength }] of this.#kept) {
      if (this.#keptBytes <= this.#maxBytes || this.#kept.size === 1) return;
      this.#kept.delete(key);
      this.#keptBytes -= byteLength;
    }
  }
}

function keyOf(product: MatrixProduct): string {
  const { kind, leftPacking, rightPacking, rows, columns, depth, scale, rounds } = product;
  const { left, right, result, addend, continues } = product;
  // Of the scale, -0 and 0 have one name.
  const numbers = [rows, columns, depth, rounds, continues, scale, 1 / scale];
  const ofLeft = [left.byteOffset, left.rowStride, left.columnStride];
  const ofRight = [right.byteOffset, right.rowStride, right.columnStride];
  const ofResult = [result.byteOffset, result.rowStride, addend?.byteOffset, addend?.rowStride];
  return [kind, leftPacking, rightPacking, ...numbers, ...ofLeft, ...ofRight, ...ofResult].join();
}

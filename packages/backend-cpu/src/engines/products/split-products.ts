import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import {
  bytesOfPacking,
  bytesOfResult,
  type ProductKind,
} from '../../program/work/product-kinds.ts';
import type { ProductCode } from '../../emit/products/product-code.ts';

/** Who shares out products, and how fast. */
interface Sharing {
  readonly code: ProductCode;
  readonly threads: number;
  /** Null if starting a thread takes some 50 µs. */
  readonly crew: object | null;
  readonly canOverlap: boolean;
}

/**
 * How many multiplications and additions make a part worth a thread of its own. Starting a thread and waiting for its
 * result takes some 50 µs.
 */
const fewestFlops = { 'f32 to f32': 5e7, 'bf16 to f32': 2e8, 'bf16 to bf16': 2e8 } as const;

/** The same for the bytes of right operands, which take the time of products of few rows. */
const FEWEST_BYTES = 2 ** 21;

/** What is worth a thread of a crew, relative to what is worth starting one. */
const SHARE_OF_CREW = 1 / 8;

/** How many threads multiplications and additions, and bytes of operands that few rows read, are worth. */
export function worthOfThread(
  flops: number,
  bytes: number,
  { crew }: Pick<Sharing, 'crew'>,
  kind: ProductKind = 'f32 to f32',
): number {
  const worth = Math.max(flops / fewestFlops[kind], bytes / FEWEST_BYTES);
  return crew === null ? worth : worth / SHARE_OF_CREW;
}

/**
 * Divides products into parts for threads, of about the same work. Each part has some of the matrices, or some
 * rows or columns of every matrix. Each sum is computed by one thread, in an order that does not depend on the number
 * of threads.
 */
export function splitProducts(
  products: readonly MatrixProduct[],
  sharing: Sharing,
): readonly (readonly MatrixProduct[])[] {
  const { code, threads, canOverlap } = sharing;
  const flops = products.reduce(
    (sum, { rows, columns, depth }) => sum + 2 * rows * columns * depth,
    0,
  );
  const [first] = products;
  if (first === undefined) return [];
  const bytes = products.reduce((sum, { depth, columns }) => sum + 4 * depth * columns, 0);
  const worth = worthOfThread(flops, bytes, sharing, first.kind);
  const parts = Math.min(canOverlap ? threads : 1, Math.floor(worth));
  if (parts < 2) return [products];
  if (products.length >= 2 * parts) {
    return ranges(products.length, parts, 1).map(({ start, end }) => products.slice(start, end));
  }
  const byRows = first.rows >= first.columns;
  const panels = code.panels(first.kind);
  // Products of groups have different numbers of rows, so each is divided by itself.
  const divided = Array.from({ length: parts }, (_, part) =>
    products.flatMap((product) => {
      const own = byRows
        ? ranges(product.rows, parts, panels.rows)[part]
        : ranges(product.columns, parts, panels.columns)[part];
      if (own === undefined) return [];
      return [byRows ? rowsOf(product, own) : columnsOf(product, own)];
    }),
  );
  return divided.filter(({ length }) => length > 0);
}

interface Range {
  readonly start: number;
  readonly end: number;
}

/** Divides a size into ranges that begin at multiples of `unit`. No range is empty. */
function ranges(size: number, parts: number, unit: number): readonly Range[] {
  const each = Math.ceil(size / parts / unit) * unit;
  return Array.from({ length: Math.ceil(size / each) }, (_, index) => ({
    start: index * each,
    end: Math.min(size, (index + 1) * each),
  }));
}

function moved<T extends { readonly byteOffset: number }>(place: T, bytes: number): T {
  return { ...place, byteOffset: place.byteOffset + bytes };
}

function rowsOf(product: MatrixProduct, { start, end }: Range): MatrixProduct {
  const { kind, leftPacking, left, result, addend } = product;
  return {
    ...product,
    rows: end - start,
    left: moved(left, bytesOfPacking(leftPacking) * start * left.rowStride),
    result: moved(result, bytesOfResult(kind) * start * result.rowStride),
    addend: addend && moved(addend, 4 * start * addend.rowStride),
  };
}

/** Some columns of a product. */
export function columnsOf(product: MatrixProduct, { start, end }: Range): MatrixProduct {
  const { kind, rightPacking, right, result, addend } = product;
  return {
    ...product,
    columns: end - start,
    right: moved(right, bytesOfPacking(rightPacking) * start * right.columnStride),
    result: moved(result, bytesOfResult(kind) * start),
    addend: addend && moved(addend, 4 * start),
  };
}

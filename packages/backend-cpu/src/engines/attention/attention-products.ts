import type {
  AttentionWork,
  HeadPlaces,
  HeadsInMemory,
} from '../../program/work/attention-work.ts';
import type { HeadRange, RowBlock } from './row-blocks.ts';
import type { MatrixLayout, MatrixProduct } from '../../program/work/matrix-product.ts';
import { bytesOfPacking, type Packing } from '../../program/work/product-kinds.ts';

/** The heads that are computed together, and the block of their queries. */
export interface Part {
  readonly heads: HeadRange;
  readonly block: RowBlock;
}

/** Where the rows of a head lie, from `row` on. Each item of the batch has `headsOfItem` heads. */
function rowsOf(
  source: HeadsInMemory,
  head: number,
  headsOfItem: number,
  row = 0,
): Pick<MatrixLayout, 'byteOffset'> & { readonly stride: number } {
  const elements = elementsBefore(source, head, headsOfItem, row);
  return { byteOffset: bytesOfPacking(source.packing) * elements, stride: source.rowStride };
}

/** The number of elements in front of a row of a head. Each item of the batch has `headsOfItem` heads. */
export function elementsBefore(
  { elementOffset, itemStride, headStride, rowStride }: HeadPlaces,
  head: number,
  headsOfItem: number,
  row = 0,
): number {
  const [item, ofItem] = [Math.floor(head / headsOfItem), head % headsOfItem];
  return elementOffset + item * itemStride + ofItem * headStride + row * rowStride;
}

function straight({ byteOffset, stride }: ReturnType<typeof rowsOf>): MatrixLayout {
  return { byteOffset, rowStride: stride, columnStride: 1 };
}

function transposed({ byteOffset, stride }: ReturnType<typeof rowsOf>): MatrixLayout {
  return { byteOffset, rowStride: 1, columnStride: stride };
}

/** The head of keys and values that a head of queries reads. */
export function keyHead({ heads, groups, keyBatch }: AttentionWork, head: number): number {
  const item = keyBatch === 1 ? 0 : Math.floor(head / heads);
  return item * groups + Math.floor((head % heads) / (heads / groups));
}

function each(work: AttentionWork, { heads }: Part): { head: number; at: number; own: number }[] {
  return Array.from({ length: heads.count }, (_, at) => {
    const head = heads.first + at;
    return { head, at, own: keyHead(work, head) };
  });
}

const plain = { scale: 1, addend: null, rounds: false } as const;

/** What is added to the scores of a head: the mask's matrix for this head, or the staircase of causal attention. */
function addendOf(work: AttentionWork, { block }: Part, head: number): MatrixProduct['addend'] {
  const { mask, params, heads } = work;
  if (mask !== null) {
    const { itemStride, headStride, queryStride } = mask;
    const matrix = Math.floor(head / heads) * itemStride + (head % heads) * headStride;
    return { byteOffset: 4 * (matrix + block.start * queryStride), rowStride: queryStride };
  }
  // Row t of the staircase begins one element before row t - 1 does.
  return params.causal && block.keys > block.start + 1
    ? { byteOffset: 4 * (pivotOf(work) - block.start), rowStride: -1 }
    : null;
}

/** The index of the last 0 of the staircase. All elements behind it are minus infinity. */
function pivotOf({ queries }: AttentionWork): number {
  return queries;
}

/** The values that causal attention adds to scores. Each row of scores reads them from another start. */
export function staircase(work: AttentionWork): Float32Array {
  const pivot = pivotOf(work);
  // The 64 elements at the end are there because vectors may be read to their end.
  return new Float32Array(pivot + work.keys + 64).fill(-Infinity, pivot + 1);
}

/**
 * Queries times keys. Operands: q, k, the scores, the mask or the staircase. The scores lie head by head, row by row.
 */
export function scoreProducts(work: AttentionWork, part: Part): MatrixProduct[] {
  const { q, k, width, isNarrow, params } = work;
  const { block } = part;
  return each(work, part).map(({ head, at, own }) => ({
    ...plain,
    kind: isNarrow ? 'bf16 to f32' : 'f32 to f32',
    leftPacking: q.packing,
    rightPacking: k.packing,
    rows: block.rows,
    columns: block.keys,
    depth: width,
    left: straight(rowsOf(q, head, work.heads, block.start)),
    right: transposed(rowsOf(k, own, work.groups)),
    result: { byteOffset: 4 * at * block.rows * block.keys, rowStride: block.keys },
    scale: params.scale,
    addend: addendOf(work, part, head),
  }));
}

/** The gradients of the weights ("owed"): dy times the values. Operands: dy, v, the gradients of the weights. */
export function owedProducts(
  work: Extract<AttentionWork, { kind: 'backward' }>,
  part: Part,
): MatrixProduct[] {
  const { dy, v, valueWidth, isNarrow } = work;
  const { block } = part;
  return each(work, part).map(({ head, at, own }) => ({
    ...plain,
    kind: isNarrow ? 'bf16 to f32' : 'f32 to f32',
    leftPacking: dy.packing,
    rightPacking: v.packing,
    rows: block.rows,
    columns: block.keys,
    depth: valueWidth,
    left: straight(rowsOf(dy, head, work.heads, block.start)),
    right: transposed(rowsOf(v, own, work.groups)),
    result: { byteOffset: 4 * at * block.rows * block.keys, rowStride: block.keys },
  }));
}

/** How a tile of weights, or of gradients of scores, is multiplied. */
interface TileProduct {
  /** The other operand, and its number of features. */
  readonly source: HeadsInMemory;
  readonly width: number;
  readonly scale: number;
  readonly isNarrowResult: boolean;
  /** Where the rows of the result lie. */
  readonly result: HeadPlaces;
  /** Whether the sums go on from what is in the result. Default: false. */
  readonly continues?: boolean;
}

function kindOf(work: AttentionWork, isNarrowResult: boolean): MatrixProduct['kind'] {
  if (!work.isNarrow) return 'f32 to f32';
  return isNarrowResult ? 'bf16 to bf16' : 'bf16 to f32';
}

/**
 * A tile times keys or values. The result has a row for each query. Operands: the tile, the keys or values, the result.
 */
export function queryProducts(
  work: AttentionWork,
  part: Part,
  product: TileProduct,
): MatrixProduct[] {
  const { source, width, scale, isNarrowResult, result, continues = false } = product;
  const { block } = part;
  const tilePacking: Packing = work.isNarrow ? 'bf16' : 'f32';
  return each(work, part).map(({ head, at, own }) => {
    return {
      ...plain,
      kind: kindOf(work, isNarrowResult),
      leftPacking: tilePacking,
      rightPacking: source.packing,
      rows: block.rows,
      columns: width,
      depth: block.keys,
      left: {
        byteOffset: bytesOfPacking(tilePacking) * at * block.rows * block.keys,
        rowStride: block.keys,
        columnStride: 1,
      },
      right: straight(rowsOf(source, own, work.groups)),
      result: {
        byteOffset:
          (isNarrowResult ? 2 : 4) * elementsBefore(result, head, work.heads, block.start),
        rowStride: result.rowStride,
      },
      scale,
      ...(continues ? { continues } : {}),
    };
  });
}

/** The state of sums over queries. */
interface KeySums {
  /** The head of keys whose sum lies first in the memory of the sums. */
  readonly first: number;
  /** The heads of keys that already have a sum. Further products are added to it. */
  readonly begun: Set<number>;
}

/**
 * A transposed tile times queries or their gradients. The result has a row for each key. Operands: the tile, the
 * queries or gradients, the result, and the result again as the addend. A product has few enough terms to finish each
 * sum at once. So it reads the addend of an element before it writes the element, and both may lie in the same place.
 */
export function keyProducts(
  work: AttentionWork,
  part: Part,
  product: TileProduct,
  { first, begun }: KeySums,
): MatrixProduct[] {
  const { source, width, scale, isNarrowResult } = product;
  const { block } = part;
  const tilePacking: Packing = work.isNarrow ? 'bf16' : 'f32';
  return each(work, part).map(({ head, at, own }) => {
    const result = {
      byteOffset:
        (isNarrowResult ? 2 : 4) * elementsBefore(product.result, own - first, work.groups),
      rowStride: product.result.rowStride,
    };
    const adds = begun.has(own);
    begun.add(own);
    return {
      ...plain,
      kind: kindOf(work, isNarrowResult),
      leftPacking: tilePacking,
      rightPacking: source.packing,
      rows: block.keys,
      columns: width,
      depth: block.rows,
      left: {
        byteOffset: bytesOfPacking(tilePacking) * at * block.rows * block.keys,
        rowStride: 1,
        columnStride: block.keys,
      },
      right: straight(rowsOf(source, head, work.heads, block.start)),
      result,
      scale,
      addend: adds ? result : null,
    };
  });
}

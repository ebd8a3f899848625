import {
  AMX_BLOCK_UNITS,
  AMX_COLUMNS,
  AMX_ROWS,
  amxSumRowBytes,
  unitElements,
} from '../../emit/products/panels.ts';
import type { ProductCode, Side } from '../../emit/products/product-code.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import { bytesOfPacking, type ProductKind } from '../../program/work/product-kinds.ts';

/**
 * How many bytes are packed or read at once. Rows of the left operand should stay in a core's second-level cache
 * together with a panel of the right operand. Columns of the right operand should stay in the third-level cache.
 * Processors with tiles have second-level caches of 2 MiB.
 */
export const leftBytes = (kind: ProductKind, code: ProductCode): number =>
  (code.panels(kind).unitMultiple > 1 ? 1024 : 384) * 1024;
const MAX_LEFT_BYTES = 1024 * 1024;
const RIGHT_BYTES = 3 * 1024 * 1024;
/** The same for few rows. What is packed is read so few times that it should stay in a core's second-level cache. */
const RIGHT_BYTES_OF_FEW = 192 * 1024;
/**
 * The most units of k in a panel of columns, so that it stays in the first- or second-level cache while the panels of
 * rows pass by.
 */
const MAX_PANEL_UNITS = 512;
export const mostUnits = (kind: ProductKind, code: ProductCode): number =>
  (4 * MAX_PANEL_UNITS) / code.panels(kind).unitBytes;
/** How many bytes packing may write behind the last panel. */
const spareBytes = 64 * 4 * AMX_COLUMNS;
/** The bytes of the sums of all rows that are packed at once, if they wait for a block of k. */
const sumsBytes = (MAX_LEFT_BYTES / (4 * AMX_BLOCK_UNITS)) * amxSumRowBytes;

/** The bytes that a thread's packings take, unless a single panel of a product takes more. */
export const packedBytes: number = MAX_LEFT_BYTES + RIGHT_BYTES + 2 * spareBytes + sumsBytes;

/** The bytes that the packings of these products take. */
export function packedBytesOf(products: readonly MatrixProduct[], code: ProductCode): number {
  const most = (side: Side): number =>
    products.reduce((bytes, product) => Math.max(bytes, sideBytes(side, product, code)), 0);
  return most('left') + most('right') + 2 * spareBytes + sumsBytes;
}

/** The bytes for one side of a product: as much as should stay in the caches, or at least one panel. */
function sideBytes(side: Side, product: MatrixProduct, code: ProductCode): number {
  const { kind, depth } = product;
  const along = { start: 0, size: kind === 'bf16 to bf16' ? depth : 2 * mostUnits(kind, code) };
  const panelBytes = laneBytes(product, along, code) * code.panels(kind)[lanesOf[side]];
  return Math.max(side === 'left' ? leftBytes(kind, code) : RIGHT_BYTES, panelBytes);
}

/** With more rows than this, columns are packed for so many panels of rows that reading them takes little time. */
export const MOST_OF_FEW = 256;

export function rightBytes({ rows }: MatrixProduct): number {
  return rows <= MOST_OF_FEW ? RIGHT_BYTES_OF_FEW : RIGHT_BYTES;
}

/** Whether the lanes of a side are rows or columns. */
export const lanesOf = { left: 'rows', right: 'columns' } as const;

/**
 * Divides a size into blocks of about the same size. Blocks are multiples of `unit`, and have at most `most` if a unit
 * does.
 */
export function* blocks(
  size: number,
  most: number,
  unit: number,
): Generator<{ readonly start: number; readonly size: number }> {
  const count = Math.ceil(size / Math.max(unit, most - (most % unit)));
  const each = Math.ceil(size / count / unit) * unit;
  for (let start = 0; start < size; start += each) {
    yield { start, size: Math.min(each, size - start) };
  }
}

export interface Block {
  readonly start: number;
  readonly size: number;
}

export const isEnd = ({ start, size }: Block, end: number): boolean => start + size === end;

/** A part of a product: a block of rows, of columns, and of terms. */
export type Part = Readonly<Record<'down' | 'across' | 'along', Block>>;

export function packedOffset(side: Side, product: MatrixProduct, code: ProductCode): number {
  return side === 'left' ? 0 : sideBytes('left', product, code) + spareBytes;
}

/** Where the sums of tiles lie, behind both packings. */
export function sumsOffset(product: MatrixProduct, code: ProductCode): number {
  return packedOffset('right', product, code) + sideBytes('right', product, code) + spareBytes;
}

/** How many units of k a packing has. */
export function unitsOf({ kind }: MatrixProduct, along: Block, code: ProductCode): number {
  const { unitMultiple } = code.panels(kind);
  return Math.ceil(along.size / unitElements(kind) / unitMultiple) * unitMultiple;
}

/** The bytes of one lane of a panel. */
export function laneBytes(product: MatrixProduct, along: Block, code: ProductCode): number {
  return code.panels(product.kind).unitBytes * unitsOf(product, along, code);
}

/** Where the routine that multiplies finds the left operand. */
export interface LeftPanels {
  readonly leftOperand: 'left' | 'packed';
  readonly leftOffset: number;
  readonly leftPanelBytes: number;
  /** The distance from row to row. For tiles, `leftStepBytes` is the distance from 16 units to the next 16. */
  readonly leftStrideBytes: number;
  readonly leftStepBytes: number;
}

const TILE_ROW_BYTES = 64;

/** With more columns than this, packing the rows takes only a small part of the time. */
const MAX_COLUMNS_OF_READ = 256;
/** Rows whose distance is a multiple of this share places in the nearest cache. */
const ALIASED_BYTES = 2048;

/**
 * Whether the left operand is read where it lies, without packing. Tiles must then be completely inside the operand,
 * and units of two elements must have both.
 */
export function readsLeft(
  product: MatrixProduct,
  code: ProductCode,
  { down, across, along }: Part,
): boolean {
  const { kind, left, leftPacking } = product;
  const { rows, unitMultiple, unitBytes } = code.panels(kind);
  if (left.columnStride !== 1 || leftPacking === 'f32 as bf16' || unitBytes !== 4) return false;
  if (unitMultiple > 1) return down.size % rows === 0 && along.size % (2 * unitMultiple) === 0;
  const isAliased = (bytesOfPacking(leftPacking) * left.rowStride) % ALIASED_BYTES === 0;
  return across.size <= MAX_COLUMNS_OF_READ && !isAliased && along.size % unitElements(kind) === 0;
}

export function readLeft(
  { kind, left, leftPacking }: MatrixProduct,
  code: ProductCode,
  down: Block,
  along: Block,
): LeftPanels {
  const bytes = bytesOfPacking(leftPacking);
  const rowBytes = bytes * left.rowStride;
  return {
    leftOperand: 'left',
    leftOffset: left.byteOffset + down.start * rowBytes + bytes * along.start,
    leftPanelBytes: code.panels(kind).rows * rowBytes,
    leftStrideBytes: rowBytes,
    leftStepBytes: TILE_ROW_BYTES,
  };
}

export function packedLeft(product: MatrixProduct, code: ProductCode, along: Block): LeftPanels {
  return {
    leftOperand: 'packed',
    leftOffset: packedOffset('left', product, code),
    leftPanelBytes: code.panels(product.kind).rows * laneBytes(product, along, code),
    leftStrideBytes: TILE_ROW_BYTES,
    leftStepBytes: AMX_ROWS * TILE_ROW_BYTES,
  };
}

/** Where the routine that multiplies finds the right operand. */
export interface RightPanels {
  readonly rightOperand: 'right' | 'packed';
  readonly rightOffset: number;
  readonly rightPanelBytes: number;
  /** The distance from unit to unit in the operand. */
  readonly rightStrideBytes: number;
}

export function packedRight(product: MatrixProduct, code: ProductCode, along: Block): RightPanels {
  return {
    rightOperand: 'packed',
    rightOffset: packedOffset('right', product, code),
    rightPanelBytes: code.panels(product.kind).columns * laneBytes(product, along, code),
    rightStrideBytes: 0,
  };
}

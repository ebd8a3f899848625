import {
  AMX_BLOCK_UNITS,
  AMX_COLUMNS,
  AMX_ROWS,
  amxSumRowBytes,
  unitElements,
} from '../../emit/products/panels.ts';
import { type BlockLoop, type CallAddress, callOnRows } from './block-loops.ts';
import { TaskList } from '../../emit/products/task-list.ts';
import type { ProductCode, Side, TileSource } from '../../emit/products/product-code.ts';
import {
  bytesOfPacking,
  bytesOfResult,
  type ProductKind,
} from '../../program/work/product-kinds.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import { columnsOf } from './split-products.ts';

/**
 * How many bytes are packed or read at once. Rows of the left operand should stay in a core's second-level cache
 * together with a panel of the right operand. Columns of the right operand should stay in the third-level cache.
 * Processors with tiles have second-level caches of 2 MiB.
 */
const leftBytes = (kind: ProductKind, code: ProductCode): number =>
  (code.panels(kind).unitMultiple > 1 ? 1024 : 384) * 1024;
const MAX_LEFT_BYTES = 1024 * 1024;
const RIGHT_BYTES = 3 * 1024 * 1024;
/**
 * The most units of k in a panel of columns, so that it stays in the first- or second-level cache while the panels of
 * rows pass by.
 */
const MAX_PANEL_UNITS = 512;
const mostUnits = (kind: ProductKind, code: ProductCode): number =>
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

/** Whether the lanes of a side are rows or columns. */
const lanesOf = { left: 'rows', right: 'columns' } as const;

/** Returns the tasks of products, in the order in which they are carried out. */
export function planTasks(products: readonly MatrixProduct[], code: ProductCode): BigUint64Array {
  const tasks = new TaskList();
  for (const product of products) addProduct(tasks, product, code);
  return tasks.finish();
}

/**
 * Returns the tasks of a product, and of the loops that run on each block of rows behind it. `addresses` says which
 * words are addresses that the loops take. `firstRow` is the product's first row in the matrix that the loops run on.
 */
export function planTasksWithLoops(
  product: MatrixProduct,
  code: ProductCode,
  loops: readonly BlockLoop[],
  firstRow: number,
): { readonly words: BigUint64Array; readonly addresses: readonly CallAddress[] } {
  const tasks = new TaskList();
  const addresses: CallAddress[] = [];
  const addLoops = ({ start: own, size }: Block): void => {
    const block = { start: firstRow + own, size };
    for (const loop of loops) {
      const call = callOnRows(loop, product.columns, block);
      const start = tasks.addCall(code.callLoop, call.words);
      addresses.push(...call.addresses.map((at) => ({ ...at, word: start + at.word })));
    }
  };
  addProduct(tasks, product, code, addLoops);
  return { words: tasks.finish(), addresses };
}

/**
 * Divides a size into blocks of about the same size. Blocks are multiples of `unit`, and have at most `most` if a unit
 * does.
 */
function* blocks(
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

/** Adds the tasks of a product. `then` is called behind the tasks of each block of rows whose result is complete. */
function addProduct(
  tasks: TaskList,
  product: MatrixProduct,
  code: ProductCode,
  then?: (down: Block) => void,
): void {
  const { kind, rows, columns, depth } = product;
  const inUnit = unitElements(kind);
  const panels = code.panels(kind);
  const step = inUnit * panels.unitMultiple;
  // Sums in bf16 would be rounded between blocks of k, so they take all of k at once.
  const mostDepth = kind === 'bf16 to bf16' ? depth + step : mostUnits(kind, code) * inUnit;
  if (readsRight(product, code)) {
    addReading(tasks, product, code);
    then?.({ start: 0, size: rows });
    return;
  }
  for (const along of blocks(depth, mostDepth, step)) {
    const bytes = laneBytes(product, along, code);
    for (const across of blocks(columns, RIGHT_BYTES / bytes, panels.columns)) {
      addPacking(tasks, product, code, 'right', across, along);
      for (const down of blocks(rows, leftBytes(kind, code) / bytes, panels.rows)) {
        const isRead = readsLeft(product, code, { down, across, along });
        if (!isRead) addPacking(tasks, product, code, 'left', down, along);
        const left = isRead
          ? readLeft(product, code, down, along)
          : packedLeft(product, code, along);
        const right = packedRight(product, code, along);
        const source = isRead ? 'operand' : 'packed';
        addMultiply(tasks, product, code, { down, across, along }, { source, ...left, ...right });
        if (isEnd(along, depth) && isEnd(across, columns)) then?.(down);
      }
    }
  }
}

interface Block {
  readonly start: number;
  readonly size: number;
}

const isEnd = ({ start, size }: Block, end: number): boolean => start + size === end;

/** A part of a product: a block of rows, of columns, and of terms. */
type Part = Readonly<Record<'down' | 'across' | 'along', Block>>;

function addPacking(
  tasks: TaskList,
  product: MatrixProduct,
  code: ProductCode,
  side: Side,
  lanes: Block,
  along: Block,
): void {
  const packing = side === 'left' ? product.leftPacking : product.rightPacking;
  const { byteOffset, rowStride, columnStride } = product[side];
  const [laneStride, elementStride] =
    side === 'left' ? [rowStride, columnStride] : [columnStride, rowStride];
  const panelLanes = code.panels(product.kind)[lanesOf[side]];
  const bytes = bytesOfPacking(packing);
  const transposes = elementStride === 1;
  const panels = Math.ceil(lanes.size / panelLanes);
  tasks.add('pack', {
    routine: code.packing(side, packing, transposes),
    operand: side,
    byteOffset: byteOffset + bytes * (lanes.start * laneStride + along.start * elementStride),
    panelStepBytes: bytes * panelLanes * laneStride,
    strideBytes: bytes * (transposes ? laneStride : elementStride),
    panels,
    lastLanes: lanes.size - (panels - 1) * panelLanes,
    elements: along.size,
    packedOffset: packedOffset(side, product, code),
    packedPanelBytes: panelLanes * laneBytes(product, along, code),
  });
}

function packedOffset(side: Side, product: MatrixProduct, code: ProductCode): number {
  return side === 'left' ? 0 : sideBytes('left', product, code) + spareBytes;
}

/** Where the sums of tiles lie, behind both packings. */
function sumsOffset(product: MatrixProduct, code: ProductCode): number {
  return packedOffset('right', product, code) + sideBytes('right', product, code) + spareBytes;
}

/** How many units of k a packing has. */
function unitsOf({ kind }: MatrixProduct, along: Block, code: ProductCode): number {
  const { unitMultiple } = code.panels(kind);
  return Math.ceil(along.size / unitElements(kind) / unitMultiple) * unitMultiple;
}

/** The bytes of one lane of a panel. */
function laneBytes(product: MatrixProduct, along: Block, code: ProductCode): number {
  return code.panels(product.kind).unitBytes * unitsOf(product, along, code);
}

/** Where the routine that multiplies finds the left operand. */
interface LeftPanels {
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
function readsLeft(
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

function readLeft(
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

function packedLeft(product: MatrixProduct, code: ProductCode, along: Block): LeftPanels {
  return {
    leftOperand: 'packed',
    leftOffset: packedOffset('left', product, code),
    leftPanelBytes: code.panels(product.kind).rows * laneBytes(product, along, code),
    leftStrideBytes: TILE_ROW_BYTES,
    leftStepBytes: AMX_ROWS * TILE_ROW_BYTES,
  };
}

/** Where the routine that multiplies finds the right operand. */
interface RightPanels {
  readonly rightOperand: 'right' | 'packed';
  readonly rightOffset: number;
  readonly rightPanelBytes: number;
  /** The distance from unit to unit in the operand. */
  readonly rightStrideBytes: number;
}

function packedRight(product: MatrixProduct, code: ProductCode, along: Block): RightPanels {
  return {
    rightOperand: 'packed',
    rightOffset: packedOffset('right', product, code),
    rightPanelBytes: code.panels(product.kind).columns * laneBytes(product, along, code),
    rightStrideBytes: 0,
  };
}

/** With fewer rows than this, packing the columns would take longer than multiplying them. */
const FEW_ROWS = 32;
/** A right operand with fewer elements is in a cache when it has been packed. */
const LARGE_RIGHT = 2 ** 16;
/** How many units are read at once: as many streams of columns as processors prefetch. */
const UNITS_OF_READ = 8;

/** Whether whole panels of columns are read where they lie, because few rows read them. */
function readsRight(product: MatrixProduct, code: ProductCode): boolean {
  const { kind, rows, columns, depth, right } = product;
  const panels = code.panels(kind);
  const leftLanes = Math.ceil(rows / panels.rows) * panels.rows;
  return (
    code.tile(kind, 'columns', 1) !== undefined &&
    right.columnStride === 1 &&
    rows < FEW_ROWS &&
    columns >= panels.columns &&
    depth * columns >= LARGE_RIGHT &&
    leftLanes * laneBytes(product, { start: 0, size: depth }, code) <= leftBytes(kind, code)
  );
}

/** Adds the tasks of a product whose right operand is read where it lies, except for the columns of no whole panel. */
function addReading(tasks: TaskList, product: MatrixProduct, code: ProductCode): void {
  const { kind, rows, columns, depth, right } = product;
  const panels = code.panels(kind);
  const rest = columns % panels.columns;
  const whole = columns - rest;
  if (rest > 0) addProduct(tasks, columnsOf(product, { start: whole, end: columns }), code);
  const [down, all] = [
    { start: 0, size: rows },
    { start: 0, size: depth },
  ];
  addPacking(tasks, product, code, 'left', down, all);
  const { leftOffset, ...left } = packedLeft(product, code, all);
  for (const along of blocks(depth, UNITS_OF_READ, 1)) {
    const part = { down, across: { start: 0, size: whole }, along };
    addMultiply(tasks, product, code, part, {
      source: 'columns',
      ...left,
      leftOffset:
        leftOffset + panels.rows * laneBytes(product, { ...all, size: along.start }, code),
      rightOperand: 'right',
      rightOffset: right.byteOffset + 4 * along.start * right.rowStride,
      rightPanelBytes: 4 * panels.columns,
      rightStrideBytes: 4 * right.rowStride,
    });
  }
}

function addMultiply(
  tasks: TaskList,
  product: MatrixProduct,
  code: ProductCode,
  { down, across, along }: Part,
  { source, ...places }: LeftPanels & RightPanels & { readonly source: TileSource },
): void {
  const { kind, depth, result, scale, addend, rounds } = product;
  const isLast = isEnd(along, depth);
  const { rows: panelRows, columns: panelColumns } = code.panels(kind);
  const rowPanels = Math.ceil(down.size / panelRows);
  const lastRows = down.size - (rowPanels - 1) * panelRows;
  const units = unitsOf(product, along, code);
  const columnPanels = Math.ceil(across.size / panelColumns);
  const resultBytes = bytesOfResult(kind);
  const placeIn = (
    matrix: { readonly byteOffset: number; readonly rowStride: number },
    elementBytes: number,
  ): number => matrix.byteOffset + elementBytes * (down.start * matrix.rowStride + across.start);
  tasks.add('multiply', {
    routine: code.multiply(kind),
    kernel: code.tile(kind, source, panelRows) ?? 0n,
    lastKernel: code.tile(kind, source, lastRows) ?? 0n,
    ...places,
    sumsOffset: sumsOffset(product, code),
    // Sums that do not wait for a next block of k all use the same place.
    sumsStepBytes: units > AMX_BLOCK_UNITS ? AMX_ROWS * amxSumRowBytes : 0,
    units,
    rowPanels,
    columnPanels,
    lastColumns: across.size - (columnPanels - 1) * panelColumns,
    lastRows,
    resultOffset: placeIn(result, resultBytes),
    resultStrideBytes: resultBytes * result.rowStride,
    addendOffset: addend === null ? 0 : placeIn(addend, 4),
    addendStrideBytes: 4 * (addend?.rowStride ?? 0),
    addendPanelBytes: 4 * panelColumns,
    flags: {
      addsToResult: along.start > 0 || product.continues === true,
      scales: isLast && scale !== 1,
      addsAddend: isLast && addend !== null,
      rounds: isLast && rounds,
    },
    scale,
  });
}

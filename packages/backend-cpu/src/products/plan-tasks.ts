import type { ProductCode, Side } from './product-code.ts';
import {
  amxBlockUnits,
  amxColumns,
  amxRows,
  amxSumRowBytes,
  bytesOfPacking,
  bytesOfResult,
  type Packing,
  type ProductKind,
  unitElements,
} from './product-types.ts';
import { type BlockLoop, type CallAddress, callOnRows } from './block-loops.ts';
import { TaskList } from './task-list.ts';

/** Where the elements of a matrix lie, in elements: at least one of the strides is 1. */
export interface MatrixLayout {
  readonly byteOffset: number;
  readonly rowStride: number;
  readonly columnStride: number;
}

/** One product of matrices: result = scale * left * right + addend, rounded where this is asked for. */
export interface MatrixProduct {
  readonly kind: ProductKind;
  readonly leftPacking: Packing;
  readonly rightPacking: Packing;
  /** Rows and columns of the result, and elements of each sum. */
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  readonly left: MatrixLayout;
  readonly right: MatrixLayout;
  /** Columns of the result lie together. */
  readonly result: { readonly byteOffset: number; readonly rowStride: number };
  readonly scale: number;
  /** f32, whose columns lie together. A row stride of 0 adds one row to all. */
  readonly addend: { readonly byteOffset: number; readonly rowStride: number } | null;
  /** Whether f32 results have the digits of bf16. */
  readonly rounds: boolean;
}

/**
 * Bytes that are packed, or read, at once: of rows of the left operand, which are to stay in a core's second cache beside a panel of the
 * right one, and of columns of the right one, which are to stay in the third. Processors with tiles have second caches of 2 MiB.
 */
const leftBytes = (kind: ProductKind, code: ProductCode): number =>
  (code.panels(kind).unitMultiple > 1 ? 1024 : 384) * 1024;
const mostLeftBytes = 1024 * 1024;
const rightBytes = 3 * 1024 * 1024;
/** Units of k of a panel of columns that is to stay in the first or the second cache while the panels of rows pass by. */
const mostPanelUnits = 512;
const mostUnits = (kind: ProductKind, code: ProductCode): number =>
  (4 * mostPanelUnits) / code.panels(kind).unitBytes;
/** What packing may write behind the last panel. */
const spareBytes = 64 * 4 * amxColumns;
/** The sums of all rows that are packed at once, if they wait for a block of k. */
const sumsBytes = (mostLeftBytes / (4 * amxBlockUnits)) * amxSumRowBytes;

/** Bytes that a thread's packings take, but for products of which a single panel takes more. */
export const packedBytes: number = mostLeftBytes + rightBytes + 2 * spareBytes + sumsBytes;

/** Bytes that the packings of these products take. */
export function packedBytesOf(products: readonly MatrixProduct[], code: ProductCode): number {
  const most = (side: Side): number =>
    products.reduce((bytes, product) => Math.max(bytes, sideBytes(side, product, code)), 0);
  return most('left') + most('right') + 2 * spareBytes + sumsBytes;
}

/** Room for one side of a product: for what is to stay in the caches, or for one panel. */
function sideBytes(side: Side, product: MatrixProduct, code: ProductCode): number {
  const { kind, depth } = product;
  const along = { start: 0, size: kind === 'bf16 to bf16' ? depth : 2 * mostUnits(kind, code) };
  const panelBytes = laneBytes(product, along, code) * code.panels(kind)[lanesOf[side]];
  return Math.max(side === 'left' ? leftBytes(kind, code) : rightBytes, panelBytes);
}

/** What lanes of a side are. */
const lanesOf = { left: 'rows', right: 'columns' } as const;

/** The tasks of products, in the order in which they are carried out. */
export function planTasks(products: readonly MatrixProduct[], code: ProductCode): BigUint64Array {
  const tasks = new TaskList();
  for (const product of products) addProduct(tasks, product, code);
  return tasks.finish();
}

/**
 * The tasks of a product, and of loops that run on each block of rows behind it; and where these take which addresses. The first row is
 * that of the matrix on which the loops run.
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

/** Blocks of at most `most` that are multiples of `unit`, and about equally large. */
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

/** `then` adds what is done with each block of rows that has been made. */
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
  // Sums in bf16 would be rounded between blocks: they are made at once.
  const mostDepth = kind === 'bf16 to bf16' ? depth + step : mostUnits(kind, code) * inUnit;
  for (const along of blocks(depth, mostDepth, step)) {
    const bytes = laneBytes(product, along, code);
    for (const across of blocks(columns, rightBytes / bytes, panels.columns)) {
      addPacking(tasks, product, code, 'right', across, along);
      for (const down of blocks(rows, leftBytes(kind, code) / bytes, panels.rows)) {
        const isRead = readsLeft(product, code, { down, across, along });
        if (!isRead) addPacking(tasks, product, code, 'left', down, along);
        const left = isRead
          ? readLeft(product, code, down, along)
          : packedLeft(product, code, along);
        addMultiply(tasks, product, code, { down, across, along }, left);
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

/** A part of a product: rows, columns, and terms. */
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

/** Where the sums of tiles are, behind both packings. */
function sumsOffset(product: MatrixProduct, code: ProductCode): number {
  return packedOffset('right', product, code) + sideBytes('right', product, code) + spareBytes;
}

/** Units of k that a packing has. */
function unitsOf({ kind }: MatrixProduct, along: Block, code: ProductCode): number {
  const { unitMultiple } = code.panels(kind);
  return Math.ceil(along.size / unitElements(kind) / unitMultiple) * unitMultiple;
}

/** Bytes of a lane of a panel. */
function laneBytes(product: MatrixProduct, along: Block, code: ProductCode): number {
  return code.panels(product.kind).unitBytes * unitsOf(product, along, code);
}

/** Where the routine that multiplies finds the left operand. */
interface LeftPanels {
  readonly leftOperand: 'left' | 'packed';
  readonly leftOffset: number;
  readonly leftPanelBytes: number;
  /** From row to row, and of tiles from 16 units to the next. */
  readonly leftStrideBytes: number;
  readonly leftStepBytes: number;
}

const tileRowBytes = 64;

/** With more columns, packing rows takes little of the time. */
const mostColumnsOfRead = 256;
/** Rows that are so far from each other, or a multiple of it, share their places in the nearest cache. */
const aliasedBytes = 2048;

/**
 * Whether the left operand is read where it lies. Of tiles nothing may lie outside of it; a unit of two elements may not have one.
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
  const isAliased = (bytesOfPacking(leftPacking) * left.rowStride) % aliasedBytes === 0;
  return across.size <= mostColumnsOfRead && !isAliased && along.size % unitElements(kind) === 0;
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
    leftStepBytes: tileRowBytes,
  };
}

function packedLeft(product: MatrixProduct, code: ProductCode, along: Block): LeftPanels {
  return {
    leftOperand: 'packed',
    leftOffset: packedOffset('left', product, code),
    leftPanelBytes: code.panels(product.kind).rows * laneBytes(product, along, code),
    leftStrideBytes: tileRowBytes,
    leftStepBytes: amxRows * tileRowBytes,
  };
}

function addMultiply(
  tasks: TaskList,
  product: MatrixProduct,
  code: ProductCode,
  { down, across, along }: Part,
  left: LeftPanels,
): void {
  const { kind, depth, result, scale, addend, rounds } = product;
  const isLast = isEnd(along, depth);
  const { rows: panelRows, columns: panelColumns } = code.panels(kind);
  const rowPanels = Math.ceil(down.size / panelRows);
  const lastRows = down.size - (rowPanels - 1) * panelRows;
  const units = unitsOf(product, along, code);
  const columnPanels = Math.ceil(across.size / panelColumns);
  const resultBytes = bytesOfResult(kind);
  const source = left.leftOperand === 'left' ? 'operand' : 'packed';
  const placeIn = (
    matrix: { readonly byteOffset: number; readonly rowStride: number },
    elementBytes: number,
  ): number => matrix.byteOffset + elementBytes * (down.start * matrix.rowStride + across.start);
  tasks.add('multiply', {
    routine: code.multiply(kind),
    kernel: code.tile(kind, source, panelRows) ?? 0n,
    lastKernel: code.tile(kind, source, lastRows) ?? 0n,
    ...left,
    rightOffset: packedOffset('right', product, code),
    sumsOffset: sumsOffset(product, code),
    // Sums that wait for nothing are in one place.
    sumsStepBytes: units > amxBlockUnits ? amxRows * amxSumRowBytes : 0,
    units,
    rowPanels,
    columnPanels,
    lastColumns: across.size - (columnPanels - 1) * panelColumns,
    lastRows,
    rightPanelBytes: panelColumns * laneBytes(product, along, code),
    resultOffset: placeIn(result, resultBytes),
    resultStrideBytes: resultBytes * result.rowStride,
    addendOffset: addend === null ? 0 : placeIn(addend, 4),
    addendStrideBytes: 4 * (addend?.rowStride ?? 0),
    addendPanelBytes: 4 * panelColumns,
    flags: {
      addsToResult: along.start > 0,
      scales: isLast && scale !== 1,
      addsAddend: isLast && addend !== null,
      rounds: isLast && rounds,
    },
    scale,
  });
}

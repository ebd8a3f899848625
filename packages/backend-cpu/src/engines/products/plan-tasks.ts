import { ggufBlockFormats, isGgufBlockName } from '@shardwise/core/spec';
import {
  AMX_BLOCK_UNITS,
  AMX_ROWS,
  amxSumRowBytes,
  SQUARE_UNITS,
  unitElements,
} from '../../emit/products/panels.ts';
import { type BlockLoop, type CallAddress, callOnRows } from './block-loops.ts';
import {
  type Block,
  blocks,
  isEnd,
  laneBytes,
  lanesOf,
  leftBytes,
  type LeftPanels,
  mostUnits,
  packedLeft,
  packedOffset,
  packedRight,
  type Part,
  readLeft,
  readsLeft,
  rightBytes,
  type RightPanels,
  sumsOffset,
  unitsOf,
} from './operand-panels.ts';
import { TaskList } from '../../emit/products/task-list.ts';
import type { ProductCode, Side, TileSource } from '../../emit/products/product-code.ts';
import { bytesOfPacking, bytesOfResult, type Packing } from '../../program/work/product-kinds.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import { type ReadAhead, readAhead, readNothing } from './read-ahead.ts';
import { columnsOf } from './split-products.ts';

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
  const step = Math.max(inUnit * panels.unitMultiple, elementsOfBlock(product));
  // Sums in bf16 would be rounded between blocks of k, so they take all of k at once.
  const mostDepth = kind === 'bf16 to bf16' ? depth + step : mostUnits(kind, code) * inUnit;
  if (readsRight(product, code)) {
    if (transposesRight(product)) addTransposing(tasks, product, code);
    else addReading(tasks, product, code);
    then?.({ start: 0, size: rows });
    return;
  }
  const alongs = [...blocks(depth, mostDepth, step)];
  const acrossOf = (along: Block): readonly Block[] => {
    const bytes = laneBytes(product, along, code);
    return [...blocks(columns, rightBytes(product) / bytes, panels.columns)];
  };
  const packed = alongs.flatMap((along) => acrossOf(along).map((across) => ({ along, across })));
  // Rows that are all packed at once are packed once for all columns.
  let packedAlong: Block | undefined;
  for (const [index, { along, across }] of packed.entries()) {
    const bytes = laneBytes(product, along, code);
    const downs = [...blocks(rows, leftBytes(kind, code) / bytes, panels.rows)];
    const ahead = readAhead(product, code, { along, across }, packed[index + 1]);
    addPacking(tasks, product, code, 'right', across, along);
    for (const down of downs) {
      const isRead = readsLeft(product, code, { down, across, along });
      if (!isRead && packedAlong !== along) addPacking(tasks, product, code, 'left', down, along);
      if (!isRead && downs.length === 1) packedAlong = along;
      const left = isRead ? readLeft(product, code, down, along) : packedLeft(product, code, along);
      const right = packedRight(product, code, along);
      const source = isRead ? 'operand' : 'packed';
      const places = { source, ...left, ...right, ahead } as const;
      addMultiply(tasks, product, code, { down, across, along }, places);
      if (isEnd(along, depth) && isEnd(across, columns)) then?.(down);
    }
  }
}

/** The elements of a block of the right operand, or 1. */
function elementsOfBlock({ rightPacking }: MatrixProduct): number {
  return isGgufBlockName(rightPacking) ? ggufBlockFormats[rightPacking].elements : 1;
}

/** The bytes into a lane at which an element begins. Elements of blocks begin with their block. */
function bytesAlong(packing: Packing, element: number, stride: number): number {
  if (!isGgufBlockName(packing)) return bytesOfPacking(packing) * element * stride;
  const { elements, bytes } = ggufBlockFormats[packing];
  return (element / elements) * bytes;
}

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
    byteOffset:
      byteOffset +
      bytes * lanes.start * laneStride +
      bytesAlong(packing, along.start, elementStride),
    panelStepBytes: bytes * panelLanes * laneStride,
    strideBytes: bytes * (transposes ? laneStride : elementStride),
    panels,
    lastLanes: lanes.size - (panels - 1) * panelLanes,
    elements: along.size,
    packedOffset: packedOffset(side, product, code),
    packedPanelBytes: panelLanes * laneBytes(product, along, code),
  });
}

/** With fewer rows than this, packing the columns would take longer than multiplying them. */
const FEW_ROWS = 9;
/** A right operand with fewer elements is in a cache when it has been packed. */
const LARGE_RIGHT = 2 ** 16;
/** How many units are read at once: as many streams of columns as processors prefetch. */
const UNITS_OF_READ = 8;

/** Whether the units of a column lie together. */
function transposesRight({ right }: MatrixProduct): boolean {
  return right.rowStride === 1;
}

/** Whether whole panels of columns are read where they lie, because few rows read them. */
function readsRight(product: MatrixProduct, code: ProductCode): boolean {
  const { kind, rows, columns, depth, left, right, rightPacking } = product;
  if (isGgufBlockName(rightPacking)) return false;
  const panels = code.panels(kind);
  const rowBytes = laneBytes(product, { start: 0, size: depth }, code);
  if (transposesRight(product)) {
    return (
      code.tile(kind, 'transposed', 1) !== undefined &&
      rows <= panels.rows &&
      columns >= panels.columns &&
      depth % (SQUARE_UNITS * unitElements(kind)) === 0 &&
      (kind === 'f32 to f32'
        ? left.columnStride === 1
        : rightPacking === 'bf16' && panels.rows * rowBytes <= leftBytes(kind, code))
    );
  }
  const leftLanes = Math.ceil(rows / panels.rows) * panels.rows;
  return (
    code.tile(kind, 'columns', 1) !== undefined &&
    right.columnStride === 1 &&
    rows < FEW_ROWS &&
    columns >= panels.columns &&
    depth * columns >= LARGE_RIGHT &&
    leftLanes * rowBytes <= leftBytes(kind, code)
  );
}

/** Adds the tasks of the columns of no whole panel. Returns the number of the others. */
function addRest(tasks: TaskList, product: MatrixProduct, code: ProductCode): number {
  const { kind, columns } = product;
  const rest = columns % code.panels(kind).columns;
  const whole = columns - rest;
  if (rest > 0) addProduct(tasks, columnsOf(product, { start: whole, end: columns }), code);
  return whole;
}

/** Adds the tasks of a product of a panel of rows whose right operand is read once, and transposed in registers. */
function addTransposing(tasks: TaskList, product: MatrixProduct, code: ProductCode): void {
  const { kind, rows, depth, right, rightPacking } = product;
  const panels = code.panels(kind);
  const whole = addRest(tasks, product, code);
  const [down, along] = [
    { start: 0, size: rows },
    { start: 0, size: depth },
  ];
  const isRead = kind === 'f32 to f32';
  if (!isRead) addPacking(tasks, product, code, 'left', down, along);
  const columnBytes = bytesOfPacking(rightPacking) * right.columnStride;
  const across = { start: 0, size: whole };
  const left = isRead ? readLeft(product, code, down, along) : packedLeft(product, code, along);
  addMultiply(
    tasks,
    product,
    code,
    { down, across, along },
    {
      source: 'transposed',
      ...left,
      rightOperand: 'right',
      rightOffset: right.byteOffset,
      rightPanelBytes: panels.columns * columnBytes,
      rightStrideBytes: columnBytes,
    },
  );
}

/** Adds the tasks of a product whose right operand is read where it lies, except for the columns of no whole panel. */
function addReading(tasks: TaskList, product: MatrixProduct, code: ProductCode): void {
  const { rows, depth, right } = product;
  const panels = code.panels(product.kind);
  const whole = addRest(tasks, product, code);
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

/** Where a multiplication finds its operands, and what it asks for meanwhile. */
interface MultiplyPlaces extends LeftPanels, RightPanels {
  readonly source: TileSource;
  readonly ahead?: ReadAhead;
}

function addMultiply(
  tasks: TaskList,
  product: MatrixProduct,
  code: ProductCode,
  { down, across, along }: Part,
  { source, ahead = readNothing, ...places }: MultiplyPlaces,
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
    ...ahead,
  });
}

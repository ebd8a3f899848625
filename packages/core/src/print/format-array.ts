import { elementCount } from '../base/shape.ts';
import { type DType, dtypes, type Shape } from '../spec/dtype.ts';
import { elementReader, type PrintedElement } from './element-reader.ts';
import { type NumberFormat, numberFormat } from './number-format.ts';

/** Arrays of at most this many elements are printed whole. */
const WHOLE_ELEMENTS = 1000;
/** The number of items that are printed at each end of a shortened dim. */
const EDGE_ITEMS = 3;
const LINE_WIDTH = 80;

/** Elements of a tensor on the host, to be printed. */
export interface PrintedArray {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly bytes: Uint8Array;
}

/** The values as nested lists, as PyTorch prints them. Of more than 1000 elements, only the edges are shown. */
export function formatArray({ dtype, shape, bytes }: PrintedArray): string {
  const count = elementCount(shape);
  if (count === 0) return '[]';
  const read = elementReader(bytes, dtype);
  const isShort = count > WHOLE_ELEMENTS;
  const rows = shownRows(shape, isShort);
  const isFloat = dtypes[dtype].kind === 'float';
  const elements = [...offsets(shape, rows)].map(read);
  const format = numberFormat(elements, isFloat);
  return nested({ shape, rows, read, format }, 0, 0);
}

/** The first and the last values, in one line. */
export function formatEdges({ dtype, shape, bytes }: PrintedArray): string {
  const count = elementCount(shape);
  const read = elementReader(bytes, dtype);
  const shown = indices(count, count > 2 * EDGE_ITEMS);
  const values = shown.map((index) => (index === gap ? gap : read(index)));
  const numbers = values.filter((value) => value !== gap);
  const { format } = numberFormat(numbers, dtypes[dtype].kind === 'float');
  return values.map((value) => (value === gap ? '…' : format(value).trim())).join(', ');
}

const gap = '...';
type Shown = readonly (number | typeof gap)[];

interface Printout {
  readonly shape: Shape;
  /** The indices of each dim that are printed. */
  readonly rows: readonly Shown[];
  readonly read: (index: number) => PrintedElement;
  readonly format: NumberFormat;
}

function shownRows(shape: Shape, isShort: boolean): readonly Shown[] {
  return shape.map((size) => indices(size, isShort && size > 2 * EDGE_ITEMS));
}

function indices(size: number, isShort: boolean): Shown {
  if (!isShort) return Array.from({ length: size }, (_, index) => index);
  const edge = Array.from({ length: EDGE_ITEMS }, (_, index) => index);
  return [...edge, gap, ...edge.map((index) => size - EDGE_ITEMS + index)];
}

/** The offsets of the elements that are printed. */
function* offsets(shape: Shape, rows: readonly Shown[], dim = 0, start = 0): Generator<number> {
  if (dim === shape.length) {
    yield start;
    return;
  }
  for (const index of rows[dim] ?? []) {
    if (index === gap) continue;
    yield* offsets(shape, rows, dim + 1, start * (shape[dim] ?? 1) + index);
  }
}

function nested(printout: Printout, dim: number, start: number): string {
  const { shape, rows, read, format } = printout;
  const left = shape.length - dim;
  if (left === 0) return format.format(read(start)).trim();
  const at = (index: number): number => start * (shape[dim] ?? 1) + index;
  const shown = rows[dim] ?? [];
  const indent = ' '.repeat(dim + 1);
  if (left === 1) {
    const items = shown.map((index) =>
      index === gap ? ` ${gap}` : format.format(read(at(index))),
    );
    const perLine = Math.max(1, Math.floor((LINE_WIDTH - dim) / (format.width + 2)));
    const lines = Array.from({ length: Math.ceil(items.length / perLine) }, (_, line) =>
      items.slice(line * perLine, (line + 1) * perLine).join(', '),
    );
    return `[${lines.join(`,\n${indent}`)}]`;
  }
  const items = shown.map((index) => (index === gap ? gap : nested(printout, dim + 1, at(index))));
  return `[${items.join(`,${'\n'.repeat(left - 1)}${indent}`)}]`;
}

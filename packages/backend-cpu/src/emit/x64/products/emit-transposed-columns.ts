import type { Assembler } from '../assembler.ts';
import {
  at,
  indexed,
  type Memory,
  r12,
  r13,
  r14,
  r9,
  rax,
  rbx,
  rcx,
  rdx,
  type Register,
  rsi,
  rsp,
  type Vector,
  xmm,
  ymm,
} from '../operands.ts';
import { SQUARE_UNITS } from '../../products/panels.ts';
import { taskField } from './task-fields.ts';

/** The units of k in one turn of the loop: a line of memory of each column. */
const TURN_UNITS = 16;
const LINE_BYTES = 64;
/** The columns of a half of the tile, which are the lanes of a vector. */
const COLUMNS = 8;
const MAX_ROWS = 6;
/** Changed registers that belong to the caller. */
const kept: readonly Register[] = [rbx, r9, r12, r13, r14];

/** Places on the stack: the sums of the first half, and where both halves begin. */
const sumPlace = (row: number): Memory => at(rsp, 32 * row);
const placeBehind = (byteOffset: number): Memory => at(rsp, 32 * MAX_ROWS + byteOffset);
const [firstColumn, firstRow, unitCount] = [placeBehind(0), placeBehind(8), placeBehind(16)];
const STACK_BYTES = 32 * MAX_ROWS + 32;

export interface TransposedColumns {
  readonly rows: number;
  /** Whether units are f32 elements, or pairs of bf16 that are multiplied as floats. */
  readonly by: 'elements' | 'floats';
  /** The two vectors of sums of each row. All are among the first twelve vectors. */
  readonly sums: readonly (readonly [Vector, Vector])[];
  /** The rows of a packed panel. */
  readonly panelRows: number;
  /** Writes code that begins the sums of a half. May change rax, and the vectors behind the sums. */
  readonly begin: (sums: readonly Vector[], half: 0 | 1) => void;
  /** Write code around all sums. May change rax. */
  readonly enter: () => void;
  readonly leave: () => void;
}

/**
 * Multiplies rows by 16 columns of an operand whose units of a column lie together. The operand is read once, in order,
 * and squares of it are transposed in registers: eight columns are the lanes of a vector, and the terms of each sum are added
 * in the order of k. While it reads eight columns, it asks for the eight behind them.
 *
 * f32 rows are read where they lie. Rows of bf16 are packed as floats. rsi: the rows. rdx: the first column. rcx: the number of
 * units, a multiple of `SQUARE_UNITS`. Changes rax, rcx, rsi and rdx.
 */
export function emitTransposedColumns(code: Assembler, options: TransposedColumns): void {
  const { rows, sums } = options;
  const own = Array.from({ length: rows }, (_, row) => ymm(row));
  for (const register of kept) code.push(register);
  code.sub(rsp, STACK_BYTES);
  options.enter();
  code.store(firstColumn, rdx);
  code.store(firstRow, rsi);
  code.store(unitCount, rcx);
  // rbx: what is asked for, eight columns ahead.
  code.mov(rbx, taskField('multiply', 'rightStrideBytes'));
  code.shl(rbx, Math.log2(COLUMNS));
  code.add(rbx, rdx);
  code.mov(r13, taskField('multiply', 'leftStrideBytes'));
  for (const half of [0, 1] as const) {
    options.begin(own, half);
    code.mov(rax, taskField('multiply', 'rightStrideBytes'));
    code.lea(r12, indexed(rax, rax, 2));
    code.mov(rcx, unitCount);
    code.mov(rsi, firstRow);
    code.mov(rdx, firstColumn);
    if (half === 1) code.lea(rdx, indexed(rdx, rax, 8));
    code.lea(r9, indexed(rdx, rax, 4));
    emitLoop(code, options);
    if (half === 0) {
      for (const [row, sum] of own.entries()) code.vstore('vmovups', sumPlace(row), sum);
    }
  }
  for (const [row, sum] of [...own.entries()].toReversed()) {
    const [, high] = sums[row] ?? [];
    if (high !== undefined) code.binary('vmovups', high, sum);
  }
  for (const [row, [low]] of sums.entries()) code.binary('vmovups', low, sumPlace(row));
  options.leave();
  code.add(rsp, STACK_BYTES);
  for (const register of kept.toReversed()) code.pop(register);
}

function emitLoop(code: Assembler, options: TransposedColumns): void {
  const { rows, by, panelRows } = options;
  const unitBytes = by === 'elements' ? 4 : 8 * panelRows;
  const [loop, rest, single, done] = [code.label(), code.label(), code.label(), code.label()];
  // r14: the fourth row.
  if (by === 'elements' && rows > 3) {
    code.lea(r14, indexed(rsi, r13, 2));
    code.add(r14, r13);
  }
  const advance = (units: number): void => {
    code.add(rdx, 4 * units);
    code.add(r9, 4 * units);
    code.add(rsi, unitBytes * units);
    if (by === 'elements' && rows > 3) code.add(r14, unitBytes * units);
  };
  code.sub(rcx, TURN_UNITS);
  code.jumpIf('less', rest);
  code.entry(loop);
  for (let line = 0; line < COLUMNS; line++) code.prefetch(at(rbx, LINE_BYTES * line));
  for (let first = 0; first < TURN_UNITS; first += SQUARE_UNITS) emitSquare(code, options, first);
  advance(TURN_UNITS);
  code.add(rbx, LINE_BYTES * COLUMNS);
  code.sub(rcx, TURN_UNITS);
  code.jumpIf('notLess', loop);
  code.place(rest);
  code.add(rcx, TURN_UNITS);
  code.jumpIf('equal', done);
  code.place(single);
  emitSquare(code, options, 0);
  advance(SQUARE_UNITS);
  code.sub(rcx, SQUARE_UNITS);
  code.jumpIf('notEqual', single);
  code.place(done);
}

/** Adds four units of k, of which each is a vector of eight columns. */
function emitSquare(code: Assembler, options: TransposedColumns, firstUnit: number): void {
  const { rows, by, panelRows } = options;
  const vectors = Array.from({ length: 8 }, (_, index) => ymm(MAX_ROWS + index));
  const units = emitTransposed(code, vectors, 4 * firstUnit);
  const [other, ...elements] = [...vectors.slice(4), ymm(14), ymm(15)];
  let turn = 0;
  const add = (column: Vector, place: (row: number) => Memory): void => {
    for (let row = 0; row < rows; row++) {
      const element = elements[turn++ % elements.length] ?? column;
      code.binary('vbroadcastss', element, place(row));
      code.ternary('vfmadd231ps', ymm(row), element, column);
    }
  };
  for (const [index, unit] of units.entries()) {
    const at0 = firstUnit + index;
    if (by === 'elements') {
      add(unit, (row) => rowElement(row, 4 * at0));
      continue;
    }
    // The second element of a pair comes first.
    code.shift('vpslld', other ?? unit, unit, 16);
    code.shift('vpsrld', unit, unit, 16);
    code.shift('vpslld', unit, unit, 16);
    const pair = 8 * panelRows * at0;
    add(unit, (row) => at(rsi, pair + 4 * row));
    add(other ?? unit, (row) => at(rsi, pair + 4 * (panelRows + row)));
  }
}

/** An element of a row that is read where it lies. r13 has the distance from row to row. */
function rowElement(row: number, byteOffset: number): Memory {
  const base = row < 3 ? rsi : r14;
  const behind = row % 3;
  return behind === 0 ? at(base, byteOffset) : indexed(base, r13, behind === 1 ? 1 : 2, byteOffset);
}

/** Loads 16 bytes of each of eight columns, and returns vectors of their units, in order. */
function emitTransposed(
  code: Assembler,
  vectors: readonly Vector[],
  byteOffset: number,
): readonly Vector[] {
  const [a = ymm(6), b = a, c = a, d = a, e = a, f = a, g = a, h = a] = vectors;
  const columnAt = (base: Register, column: number): Memory =>
    column === 0
      ? at(base, byteOffset)
      : indexed(base, column === 3 ? r12 : rax, column === 2 ? 2 : 1, byteOffset);
  for (const [column, vector] of [a, b, c, d].entries()) {
    code.binary('vmovups', xmm(vector.index), columnAt(rdx, column));
    code.ternaryWith('vinsertf128', vector, vector, columnAt(r9, column), 1);
  }
  code.ternary('vunpcklps', e, a, b);
  code.ternary('vunpckhps', f, a, b);
  code.ternary('vunpcklps', g, c, d);
  code.ternary('vunpckhps', h, c, d);
  code.ternary('vunpcklpd', a, e, g);
  code.ternary('vunpckhpd', b, e, g);
  code.ternary('vunpcklpd', c, f, h);
  code.ternary('vunpckhpd', d, f, h);
  return [a, b, c, d];
}

import {
  type Code,
  f32,
  f32x4,
  FunctionBuilder,
  type Local,
  usize,
  v128,
} from '@shardwise/wasm-assembler';
import type { Tile } from './tile.ts';

type Address = Local<'usize'>;
type Vector = Local<'v128'>;

const ELEMENT_BYTES = 4;
const VECTOR_BYTES = 16;

/** What the sums are added to: nothing, or a matrix of f32, which may be the result itself. */
export type AddedTo = 'nothing' | 'matrix';

/**
 * Writes the kernel that multiplies packed panels: result = scale * left @ right + addend. Parameters: rows, columns,
 * depth, bytes of a row of the result, bytes of a row of the addend; the addresses of packed left, packed right,
 * result, addend and of memory for one tile; then the scale.
 */
export function multiplyPanels(tile: Tile, addedTo: AddedTo): FunctionBuilder {
  const fn = new FunctionBuilder(10);
  const scale = fn.addParameter('f32');
  const at = (index: number): Address => fn.parameter(index);
  const [rows, columns, depth] = [at(0), at(1), at(2)];
  const [resultRow, addendRow, left, right] = [at(3), at(4), at(5), at(6)];
  const [result, addend, spare] = [at(7), at(8), at(9)];
  const factor = fn.let(f32x4.splat(scale));
  const column = fn.let(usize.const(0));
  const row = fn.let(usize.const(0));
  const [a, b, panel] = [fn.let(left), fn.let(right), fn.let(right)];
  const [to, add] = [fn.let(result), fn.let(addend)];
  const panelBytes = fn.let(usize.mul(depth, usize.const(tile.columns * ELEMENT_BYTES)));
  fn.while(usize.ltU(column, columns), () => {
    fn.set(a, left);
    fn.set(row, usize.const(0));
    fn.set(to, usize.add(result, usize.shl(column, usize.const(2))));
    fn.set(add, usize.add(addend, usize.shl(column, usize.const(2))));
    fn.while(usize.ltU(row, rows), () => {
      fn.set(b, panel);
      const sums = sumTile(fn, tile, depth, a, b);
      for (const sum of sums.flat()) fn.set(sum, f32x4.mul(sum, factor));
      const rest = fn.let(usize.sub(rows, row));
      const restColumns = fn.let(usize.sub(columns, column));
      const isWhole = fn.let(
        usize.mul(atLeast(rest, tile.rows), atLeast(restColumns, tile.columns)),
      );
      fn.if(usize.ltU(usize.const(0), isWhole), () => {
        storeTile(fn, sums, to, resultRow, addedTo === 'matrix' ? { add, addendRow } : null);
      });
      fn.if(usize.ltU(isWhole, usize.const(1)), () => {
        storeTile(fn, sums, spare, usize.const(tile.columns * ELEMENT_BYTES), null);
        copyPart(
          fn,
          tile,
          { spare, to, resultRow, rest, restColumns },
          addedTo === 'matrix' ? { add, addendRow } : null,
        );
      });
      fn.set(row, usize.add(row, usize.const(tile.rows)));
      fn.set(to, usize.add(to, usize.mul(resultRow, usize.const(tile.rows))));
      fn.set(add, usize.add(add, usize.mul(addendRow, usize.const(tile.rows))));
    });
    fn.set(panel, usize.add(panel, panelBytes));
    fn.set(column, usize.add(column, usize.const(tile.columns)));
  });
  return fn;
}

/** 1 if the value is at least `least`, else 0. */
function atLeast(value: Address, least: number): Code<'usize'> {
  return usize.fromI32(usize.geU(value, usize.const(least)));
}

interface Addend {
  readonly add: Address;
  readonly addendRow: Address;
}

/** Computes the sums of a tile, by row and vector. Afterwards, `a` and `b` point behind the panels. */
function sumTile(
  fn: FunctionBuilder,
  { rows, columns, isFused }: Tile,
  depth: Address,
  a: Address,
  b: Address,
): Vector[][] {
  const vectors = columns / 4;
  const sums = Array.from({ length: rows }, () =>
    Array.from({ length: vectors }, () => fn.let(f32x4.const(0))),
  );
  const step = (unit: number): void => {
    const rights = Array.from({ length: vectors }, (_, vector) =>
      fn.let(v128.load(b, (unit * vectors + vector) * VECTOR_BYTES)),
    );
    for (const [row, ofRow] of sums.entries()) {
      const left = fn.let(v128.load32Splat(a, (unit * rows + row) * ELEMENT_BYTES));
      for (const [vector, sum] of ofRow.entries()) {
        const right = rights[vector];
        if (right === undefined) continue;
        fn.set(
          sum,
          isFused ? f32x4.relaxedMadd(left, right, sum) : f32x4.add(sum, f32x4.mul(left, right)),
        );
      }
    }
  };
  const advance = (units: number): void => {
    fn.set(a, usize.add(a, usize.const(units * rows * ELEMENT_BYTES)));
    fn.set(b, usize.add(b, usize.const(units * columns * ELEMENT_BYTES)));
  };
  const unit = fn.let(usize.const(0));
  for (const units of [UNROLLED, 1]) {
    fn.forSteps(unit, units, depth, () => {
      for (let index = 0; index < units; index++) step(index);
      advance(units);
    });
  }
  return sums;
}

const UNROLLED = 4;

function storeTile(
  fn: FunctionBuilder,
  sums: readonly (readonly Vector[])[],
  to: Address,
  rowBytes: Code<'usize'>,
  addend: Addend | null,
): void {
  const place = fn.let(to);
  const from = addend && fn.let(addend.add);
  for (const ofRow of sums) {
    for (const [vector, sum] of ofRow.entries()) {
      const offset = vector * VECTOR_BYTES;
      const value = from === null ? sum : f32x4.add(sum, v128.load(from, offset));
      fn.do(v128.store(place, value, offset));
    }
    fn.set(place, usize.add(place, rowBytes));
    if (addend !== null && from !== null) fn.set(from, usize.add(from, addend.addendRow));
  }
}

interface Part {
  readonly spare: Address;
  readonly to: Address;
  readonly resultRow: Address;
  readonly rest: Address;
  readonly restColumns: Address;
}

/** Copies the rows and columns of a tile that the result has. */
function copyPart(
  fn: FunctionBuilder,
  tile: Tile,
  { spare, to, resultRow, rest, restColumns }: Part,
  addend: Addend | null,
): void {
  const least = (value: Address, most: number): Address => {
    const count = fn.let(value);
    fn.if(usize.ltU(usize.const(most), value), () => fn.set(count, usize.const(most)));
    return count;
  };
  const rows = least(rest, tile.rows);
  const columns = least(restColumns, tile.columns);
  const [source, target] = [fn.let(spare), fn.let(to)];
  const from = addend && fn.let(addend.add);
  const row = fn.let(usize.const(0));
  const column = fn.let(usize.const(0));
  fn.forSteps(row, 1, rows, () => {
    fn.set(column, usize.const(0));
    fn.forSteps(column, 1, columns, () => {
      const offset = fn.let(usize.shl(column, usize.const(2)));
      const sum = f32.load(usize.add(source, offset));
      const value = from === null ? sum : f32.add(sum, f32.load(usize.add(from, offset)));
      fn.do(f32.store(usize.add(target, offset), value));
    });
    fn.set(source, usize.add(source, usize.const(tile.columns * ELEMENT_BYTES)));
    fn.set(target, usize.add(target, resultRow));
    if (addend !== null && from !== null) fn.set(from, usize.add(from, addend.addendRow));
  });
}

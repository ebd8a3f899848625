import {
  type Code,
  f32,
  f32x4,
  FunctionBuilder,
  i8x16,
  type Local,
  usize,
  v128,
} from '@shardwise/wasm-assembler';
import { loadLanes, storeLanes, type Width } from '../lane-memory.ts';
import { type LaneDType, laneBytes } from '../../../lanes/loop-spec.ts';
import type { Cursor, Fold, RowProgram, Rows, Vector } from '../../../lanes/rows.ts';

/** Where a row begins, and the dtype of its elements. */
interface Address {
  readonly place: Local<'usize'>;
  readonly dtype: LaneDType;
}

const LANES = 4;
/**
 * How many vectors hold a sum. An addition has a longer latency than the time until the next one can start, so several
 * sums run at once.
 */
const ACCUMULATORS = 4;
const SWAP_HALVES = [8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7];
const SWAP_PAIRS = [4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11];
/** Each lane gets the element of the next one. */
const NEXT_LANES = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3];

/** Writes a program for each row as a WebAssembly function. */
export function rowFunction({ operands, write }: RowProgram): FunctionBuilder {
  const writer = new RowWriter(operands);
  write(writer);
  return writer.fn;
}

/**
 * Writes kernels that walk over rows. Parameters: rows, columns, then addresses. Sums have a fixed order: lane by lane,
 * then across lanes.
 */
export class RowWriter implements Rows<Address> {
  readonly fn: FunctionBuilder;
  readonly rows: Local<'usize'>;
  readonly columns: Local<'usize'>;
  readonly #operands: readonly LaneDType[];
  readonly #column: Local<'usize'>;
  readonly #columnCount: Vector;

  constructor(operands: readonly LaneDType[]) {
    this.#operands = operands;
    this.fn = new FunctionBuilder(2 + operands.length);
    this.rows = this.fn.parameter(0);
    this.columns = this.fn.parameter(1);
    this.#column = this.fn.let(usize.const(0));
    this.#columnCount = this.fn.let(f32x4.splat(f32.convertUsize(this.columns)));
  }

  address(index: number): Address {
    const dtype = this.#operands[index];
    if (dtype === undefined) throw new RangeError(`no address ${index} among those of a kernel`);
    return { place: this.fn.parameter(2 + index), dtype };
  }

  mean(sum: Vector): Vector {
    return this.fn.let(f32x4.div(sum, this.#columnCount));
  }

  eachRow(advancing: readonly Address[], body: () => void): void {
    const { fn } = this;
    const row = fn.let(usize.const(0));
    fn.forSteps(row, 1, this.rows, () => {
      body();
      for (const address of advancing) this.advance(address, this.columns);
    });
  }

  advance({ place, dtype }: Address, elements: Code<'usize'>): void {
    const bytes = usize.mul(elements, usize.const(laneBytes[dtype]));
    this.fn.set(place, usize.add(place, bytes));
  }

  each(body: (at: Cursor<Address>) => void, unroll = 1): void {
    this.#walk(this.columns, unroll, (at) => body(at));
  }

  /**
   * Folds the first `count` elements of the row. Which sum and which lane an element goes to depends on its column alone,
   * so that zeros behind the others do not change a sum. To this end, sums and lanes move on behind the steps at the end,
   * which are not unrolled. `#across` adds sums and lanes that are opposite to each other, which they stay.
   */
  fold(
    folds: readonly Fold[],
    terms: (at: Cursor<Address>) => readonly Code<'v128'>[],
    count: Code<'usize'> = this.columns,
  ): Vector[] {
    const { fn } = this;
    const unroll = folds.length > 1 ? ACCUMULATORS / 2 : ACCUMULATORS;
    const accumulators = folds.map((fold) =>
      Array.from({ length: unroll }, () => fn.let(fn.float(fold === 'sum' ? 0 : -Infinity))),
    );
    this.#walk(
      count,
      unroll,
      (at, vector, isTail) => {
        terms(at).forEach((term, i) => {
          const accumulator = accumulators[i]?.[vector];
          const fold = folds[i];
          if (!accumulator || !fold) throw new RangeError('More terms than folds.');
          const masked = isTail && fold === 'sum' ? v128.and(term, fn.lanes([-1, 0, 0, 0])) : term;
          fn.set(accumulator, combine(fold, accumulator, masked));
        });
      },
      (isTail) => {
        for (const sums of accumulators) {
          if (isTail) this.#moveLanes(sums);
          else this.#moveSums(sums);
        }
      },
    );
    return folds.map((fold, i) => this.#across(fold, accumulators[i] ?? []));
  }

  /** Each variable gets the value of the next one. */
  #moveSums(sums: readonly Vector[]): void {
    const { fn } = this;
    const [first, ...others] = sums;
    if (first === undefined || others.length === 0) return;
    const kept = fn.let(first);
    for (const [index, next] of [...others, kept].entries()) fn.set(sums[index] ?? first, next);
  }

  #moveLanes(sums: readonly Vector[]): void {
    for (const sum of sums) this.fn.set(sum, i8x16.shuffle(sum, sum, NEXT_LANES));
  }

  #across(fold: Fold, accumulators: readonly Vector[]): Vector {
    const { fn } = this;
    let parts = [...accumulators];
    while (parts.length > 1) {
      const half = parts.length / 2;
      const [low, high] = [parts.slice(0, half), parts.slice(half)];
      parts = low.map((part, i) => fn.let(combine(fold, part, high[i] ?? part)));
    }
    let [value = fn.float(0)] = parts;
    for (const lanes of [SWAP_HALVES, SWAP_PAIRS]) {
      value = fn.let(combine(fold, value, i8x16.shuffle(value, value, lanes)));
    }
    return value;
  }

  /** `behind` writes what follows each step that is not unrolled. */
  #walk(
    count: Code<'usize'>,
    unroll: number,
    body: (at: Cursor<Address>, vector: number, isTail: boolean) => void,
    behind: (isTail: boolean) => void = () => {},
  ): void {
    const { fn } = this;
    fn.set(this.#column, usize.const(0));
    if (unroll > 1) {
      fn.forSteps(this.#column, LANES * unroll, count, () => {
        for (let vector = 0; vector < unroll; vector++) {
          body(this.#cursor(LANES, vector * LANES), vector, false);
        }
      });
    }
    fn.forSteps(this.#column, LANES, count, () => {
      body(this.#cursor(LANES, 0), 0, false);
      behind(false);
    });
    fn.forSteps(this.#column, 1, count, () => {
      body(this.#cursor(1, 0), 0, true);
      behind(true);
    });
  }

  /** A cursor at the four elements `offset` behind the column, or at the one element of a tail. */
  #cursor(width: Width, offset: number): Cursor<Address> {
    const { fn } = this;
    const store = ({ place, dtype }: Address, value: Code<'v128'>): void => {
      const byteOffset = offset * laneBytes[dtype];
      storeLanes(fn, dtype, width, this.#elementAt(place, dtype), fn.let(value), byteOffset);
    };
    return {
      load: ({ place, dtype }) => {
        const byteOffset = offset * laneBytes[dtype];
        return fn.let(loadLanes(fn, dtype, width, this.#elementAt(place, dtype), byteOffset));
      },
      store,
      keep: store,
    };
  }

  #elementAt(row: Local<'usize'>, dtype: LaneDType): Code<'usize'> {
    const bytes = laneBytes[dtype];
    const column = this.#column;
    return usize.add(
      row,
      bytes === 1 ? column : usize.shl(column, usize.const(bytes === 2 ? 1 : 2)),
    );
  }
}

/** The pseudo-maximum ignores NaN, but the sums that follow do not. */
function combine(fold: Fold, a: Code<'v128'>, b: Code<'v128'>): Code<'v128'> {
  return fold === 'sum' ? f32x4.add(a, b) : f32x4.pmax(a, b);
}

import { type Code, f32x4, FunctionBuilder } from '@shardwise/wasm-assembler';
import type { LaneDType } from './loop-spec.ts';
import type { Cursor, Fold, RowProgram, Rows, Vector } from './rows.ts';
import { type LaneInput, type LaneLoop, type LanePass, laneInput } from './lane-loop.ts';

/** Turns a program for each row into a loop in terms of lanes. */
export function rowLoop({ operands, write }: RowProgram): LaneLoop {
  const rows = new LaneRows(operands);
  write(rows);
  return rows.finish();
}

/** Records what a program does to rows. The address of an operand is its number here. */
class LaneRows implements Rows<number> {
  readonly fn = new FunctionBuilder(0);
  readonly #operands: readonly LaneDType[];
  readonly #inputs: LaneInput[];
  readonly #columns: Vector;
  readonly #before: LanePass[] = [];
  readonly #passes: LanePass[] = [];
  /** The operands that have elements for each row. Undefined before `eachRow`. */
  #advancing: readonly number[] | undefined;

  constructor(operands: readonly LaneDType[]) {
    this.#operands = operands;
    this.#inputs = operands.map((_, operand) => ({ kind: 'operand', operand }));
    this.#columns = this.#input({ kind: 'columns' });
  }

  finish(): LaneLoop {
    return {
      operands: this.#operands.map((dtype, operand) => ({
        dtype,
        access: this.#advancing?.includes(operand) ? 'element' : 'column',
        elementOffset: 0,
      })),
      inputs: this.#inputs,
      before: this.#before,
      passes: this.#passes,
    };
  }

  address(index: number): number {
    return index;
  }

  mean(sum: Vector): Vector {
    return this.fn.let(f32x4.div(sum, this.#columns));
  }

  eachRow(advancing: readonly number[], body: () => void): void {
    if (this.#advancing !== undefined) throw new RangeError('rows are walked over once');
    this.#advancing = advancing;
    body();
  }

  each(body: (at: Cursor<number>) => void): void {
    this.#pass([], (at) => {
      body(at);
      return [];
    });
  }

  fold(folds: readonly Fold[], terms: (at: Cursor<number>) => readonly Code<'v128'>[]): Vector[] {
    return this.#pass(folds, terms);
  }

  #pass(folds: readonly Fold[], terms: (at: Cursor<number>) => readonly Code<'v128'>[]): Vector[] {
    const stores: LanePass['stores'][number][] = [];
    const store = (operand: number, value: Code<'v128'>): void => {
      stores.push({ operand, value });
    };
    const load = (operand: number): Vector => this.fn.let(laneInput(operand));
    const folded = terms({ load, store, keep: store });
    const results = folds.map(() => this.#input({ kind: 'folded' }));
    const first = this.#inputs.length - folds.length;
    const pass = {
      stores,
      folds: folds.map((fold, index) => {
        const term = folded[index];
        if (term === undefined) throw new RangeError('more folds than terms');
        return { fold, term, input: first + index };
      }),
    };
    (this.#advancing === undefined ? this.#before : this.#passes).push(pass);
    return results;
  }

  #input(input: LaneInput): Vector {
    return this.fn.let(laneInput(this.#inputs.push(input) - 1));
  }
}

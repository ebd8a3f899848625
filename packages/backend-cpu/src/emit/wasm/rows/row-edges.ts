import type { Code, FunctionBuilder } from '@shardwise/wasm-assembler';
import { cast } from '../../../lanes/cast.ts';
import type { LaneDType, LoopSpec } from '../../../lanes/loop-spec.ts';
import { slotAt, stepValue } from '../../../lanes/step-value.ts';
import type { Cursor, Fold, RowProgram, Rows, Vector } from '../../../lanes/rows.ts';

/** Steps on the elements of rows, which run when a program loads them and when it stores its result. */
export interface RowEdges {
  /** The dtype of the values at each address of the program. Values that are not f32 are converted to f32. */
  readonly dtypes: readonly LaneDType[];
  /** The index of the address to which the program stores its result. */
  readonly result: number;
  /** How the result itself is stored: all of its rows, only the current row in memory for one row, or not at all. */
  readonly stored: 'whole' | 'row' | 'none';
  /** Elementwise steps on the result. Their operands are elements, or columns that all rows share. */
  readonly loop: LoopSpec;
  /** Which load of the loop is the result. */
  readonly load: number;
}

/**
 * Adds steps to a program. Addresses: those of the program, without the result's if it is not stored; the loop's other
 * loads; its stores.
 */
export function withEdges(program: RowProgram, edges: RowEdges): RowProgram {
  const { dtypes, result, stored, loop, load } = edges;
  const loads = loop.loads.filter((_, index) => index !== load).map(({ dtype }) => dtype);
  const own = dtypes.filter((_, address) => address !== result || stored !== 'none');
  return {
    operands: [...own, ...loads, ...loop.stores.map(({ dtype }) => dtype)],
    write: (rows) => program.write(new EdgeRows(rows, edges, own.length)),
  };
}

/** The rows as the program sees them. An address is its number in the program. */
class EdgeRows<A> implements Rows<number> {
  readonly fn: FunctionBuilder;
  readonly mean: (sum: Vector) => Vector;
  readonly #rows: Rows<A>;
  readonly #edges: RowEdges;
  /** The addresses by their numbers in the program. Undefined for a result that is not stored. */
  readonly #addresses: readonly (A | undefined)[];
  /** The addresses of the loop's loads. Undefined for the result. */
  readonly #loads: readonly (A | undefined)[];
  readonly #stores: readonly A[];

  constructor(rows: Rows<A>, edges: RowEdges, own: number) {
    const { dtypes, result, stored, loop, load } = edges;
    this.fn = rows.fn;
    this.mean = (sum) => rows.mean(sum);
    this.#rows = rows;
    this.#edges = edges;
    let next = 0;
    this.#addresses = dtypes.map((_, address) =>
      address === result && stored === 'none' ? undefined : rows.address(next++),
    );
    next = own;
    this.#loads = loop.loads.map((_, index) => (index === load ? undefined : rows.address(next++)));
    this.#stores = loop.stores.map(() => rows.address(next++));
  }

  address(index: number): number {
    return index;
  }

  eachRow(advancing: readonly number[], body: () => void): void {
    const { result, stored, loop } = this.#edges;
    const own = advancing.filter((address) => address !== result || stored === 'whole');
    const loads = this.#loads.filter((_, index) => loop.loads[index]?.access === 'element');
    const all = [...own.map((address) => this.#addresses[address]), ...loads, ...this.#stores];
    this.#rows.eachRow(
      all.filter((address) => address !== undefined),
      body,
    );
  }

  each(body: (at: Cursor<number>) => void, unroll?: number): void {
    this.#rows.each((at) => body(this.#cursor(at)), unroll);
  }

  fold(folds: readonly Fold[], terms: (at: Cursor<number>) => readonly Code<'v128'>[]): Vector[] {
    return this.#rows.fold(folds, (at) => terms(this.#cursor(at)));
  }

  #cursor(at: Cursor<A>): Cursor<number> {
    const { dtypes, result, stored } = this.#edges;
    const keep = (address: number, value: Code<'v128'>): void =>
      at.keep(this.#addressOf(address), value);
    return {
      load: (address) => {
        const inputDType = dtypes[address] ?? 'f32';
        const lanes = at.load(this.#addressOf(address));
        if (inputDType === 'f32') return lanes;
        return this.fn.let(cast({ fn: this.fn, dtype: 'f32', inputDType }, lanes));
      },
      keep,
      store: (address, value) => {
        if (address !== result) return keep(address, value);
        const lanes = this.fn.let(value);
        if (stored === 'whole') keep(address, lanes);
        this.#finish(at, lanes);
      },
    };
  }

  /** Runs the loop's steps on elements of the result. */
  #finish(at: Cursor<A>, lanes: Vector): void {
    const { loop } = this.#edges;
    const slots = this.#loads.map((address) => (address === undefined ? lanes : at.load(address)));
    for (const step of loop.steps) {
      slots.push(
        stepValue(this.fn, step, slots, () => {
          throw new RangeError('steps behind a row know no indices');
        }),
      );
    }
    loop.stores.forEach(({ slot }, index) => {
      const address = this.#stores[index];
      if (address !== undefined) at.store(address, slotAt(slots, slot));
    });
  }

  #addressOf(address: number): A {
    const found = this.#addresses[address];
    if (found === undefined) throw new RangeError(`address ${address} of a row is in no memory`);
    return found;
  }
}

import { mixed } from '../signature/plain-data.ts';
import { Interned } from '../signature/words.ts';

/** An op of a plan. */
export interface Expression {
  readonly op: string;
  readonly params: object;
  /** The ids of the input values. */
  readonly inputs: readonly number[];
}

/** Finds equal expressions among the values of a plan. */
export class EqualValues {
  readonly #values: readonly Expression[];
  readonly #eras: readonly number[];
  readonly #interned = new Interned();
  /** By value id, the number of the parameters. -1 for values that were not added. */
  readonly #params: Int32Array;
  /** By hash modulo the length of the table, the id of the latest value. -1 if there is none. */
  readonly #latest: Int32Array;
  /** By value id, the id of the value before it in the same place of the table. -1 if there is none. */
  readonly #before: Int32Array;

  /** `values` and `eras` may grow up to `most` items while this object is used. */
  constructor(values: readonly Expression[], eras: readonly number[], most: number) {
    this.#values = values;
    this.#eras = eras;
    this.#params = new Int32Array(most).fill(-1);
    this.#before = new Int32Array(most).fill(-1);
    this.#latest = new Int32Array(2 ** Math.ceil(Math.log2(most + 1))).fill(-1);
  }

  /** The id of the value of this era that equals `value`. If there is none, `add` adds the value and returns its id. */
  idOf(value: Expression, era: number, add: () => number): number {
    const params = this.#interned.data(value.params);
    let hash = mixed(mixed(this.#interned.text(value.op), params), era);
    for (const input of value.inputs) hash = mixed(hash, input);
    const place = hash & (this.#latest.length - 1);
    const latest = this.#latest[place] ?? -1;
    for (let id = latest; id >= 0; id = this.#before[id] ?? -1) {
      const isAlike = this.#params[id] === params && this.#eras[id] === era;
      if (isAlike && isSame(this.#values[id], value)) return id;
    }
    const id = add();
    this.#params[id] = params;
    this.#before[id] = latest;
    this.#latest[place] = id;
    return id;
  }
}

function isSame(found: Expression | undefined, { op, inputs }: Expression): boolean {
  if (found?.op !== op || found.inputs.length !== inputs.length) return false;
  for (let at = 0; at < inputs.length; at++) if (found.inputs[at] !== inputs[at]) return false;
  return true;
}

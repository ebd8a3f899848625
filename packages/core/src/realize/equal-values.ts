import { none } from '../graph/node.ts';
import { structureKey } from './structure-key.ts';

/** An op of a plan. */
export interface Expression {
  readonly op: string;
  readonly params: object;
  /** Ids of values. */
  readonly inputs: readonly number[];
}

/**
 * Finds equal expressions among the values of a plan. It compares numbers: the texts of all values of a large plan
 * would be moved by the garbage collector again and again.
 */
export class EqualValues {
  readonly #values: readonly Expression[];
  readonly #eras: readonly number[];
  /** Of an op with its parameters, as text. */
  readonly #kinds = new Map<string, number>();
  /** By id; undefined for values that were not added. */
  readonly #kindOf: (number | undefined)[] = [];
  /** By hash, the latest value; by id, the one of that hash before it. */
  readonly #latest = new Map<number, number>();
  readonly #before: (number | undefined)[] = [];

  /** `values` and `eras` grow while it is used. */
  constructor(values: readonly Expression[], eras: readonly number[]) {
    this.#values = values;
    this.#eras = eras;
  }

  /** The id of the value of that era that equals `value`; where there is none, `add` gives it one. */
  idOf(value: Expression, era: number, add: () => number): number {
    const kind = this.#kind(value);
    let hash = mixed(kind, era);
    for (const input of value.inputs) hash = mixed(hash, input);
    const latest = this.#latest.get(hash);
    for (let id = latest; id !== undefined; id = this.#before[id]) {
      if (
        this.#kindOf[id] === kind &&
        this.#eras[id] === era &&
        hasInputs(this.#values[id], value)
      ) {
        return id;
      }
    }
    const id = add();
    this.#kindOf[id] = kind;
    this.#before[id] = latest;
    this.#latest.set(hash, id);
    return id;
  }

  #kind({ op, params }: Expression): number {
    const text = `${op} ${params === none ? '{}' : structureKey(params)}`;
    const known = this.#kinds.get(text);
    if (known !== undefined) return known;
    this.#kinds.set(text, this.#kinds.size);
    return this.#kinds.size - 1;
  }
}

function hasInputs(found: Expression | undefined, { inputs }: Expression): boolean {
  if (found?.inputs.length !== inputs.length) return false;
  for (let at = 0; at < inputs.length; at++) if (found.inputs[at] !== inputs[at]) return false;
  return true;
}

function mixed(hash: number, word: number): number {
  const product = Math.imul(hash ^ word, 0x9e3779b1);
  return product ^ (product >>> 15);
}

import { isOp, none, type Node } from '../../graph/node.ts';
import type { Subgraph } from '../collect/collect.ts';
import { hasSizes, isSizeList } from './op-sizes.ts';
import { fieldsOf } from './plain-data.ts';
import { type Interned, type Key, Words } from './words.ts';

/**
 * Describes what a subgraph computes, without the contents of its leaves. It is valid until the next signature is made.
 * Subgraphs with equal keys differ at most in the numbers of their constants and in sizes.
 */
export interface Signature {
  /** The key of the structure: ops, parameters, sizes of 0 and 1, and connections. */
  readonly key: Key;
  /** The number of each constant, in program order. */
  readonly numbers: Float64Array;
  /** The sizes that are at least 2: first those of leaves, then those among parameters, in program order. */
  readonly sizes: Float64Array;
}

/** Whether a size is 0 or 1. Such sizes are part of the structure, as empty and repeated values are special cases. */
export function isSpecial(size: number): boolean {
  return size < 2;
}

/** The word for a size that is not special. No special size is negative. */
const SOME_SIZE = -3;

/** The word for a number of rows that the run computes. The slot of the node that computes it follows. */
const ROW_COUNT = -4;

/** The word before the name and the value of a parameter that is no list of sizes. `Words` uses -5. */
const FIELD = -6;

/**
 * Makes signatures. The shapes of computed nodes follow from leaves, ops and parameters, so signatures only contain the
 * shapes of leaves.
 */
export class Signatures {
  readonly #interned: Interned;
  readonly #words = new Words();
  #numbers = new Float64Array(256);
  #numberCount = 0;
  #sizes = new Float64Array(1024);
  #sizeCount = 0;

  constructor(interned: Interned) {
    this.#interned = interned;
  }

  of(subgraph: Subgraph, roots: readonly Node[]): Signature {
    this.#words.clear();
    this.#numberCount = 0;
    this.#sizeCount = 0;
    for (const { dtype, shape } of subgraph.leaves) {
      this.#words.push(this.#interned.text(dtype));
      this.#pushSizes(shape);
    }
    this.#words.push(-1);
    let era = 0;
    for (const node of subgraph.computed) {
      if (node.era !== era) this.#words.push(-2);
      era = node.era;
      this.#words.push(this.#interned.text(node.op));
      if (isOp(node, 'constant')) this.#constant(node);
      else if (hasSizes(node)) this.#sized(node);
      else if (node.params !== none) this.#words.push(this.#interned.data(node.params));
      for (const input of node.inputs) this.#words.push(input.slot);
      this.#words.push(-1);
    }
    for (const root of roots) this.#words.push(root.slot);
    return {
      key: this.#words.key,
      numbers: this.#numbers.subarray(0, this.#numberCount),
      sizes: this.#sizes.subarray(0, this.#sizeCount),
    };
  }

  #sized(node: Node): void {
    const params = fieldsOf(node.params);
    for (const name in params) {
      const value = params[name];
      if (isSizeList(node.op, name, value)) {
        this.#pushSizes(value);
        continue;
      }
      this.#words.push(FIELD);
      this.#words.push(this.#interned.text(name));
      this.#words.push(this.#interned.data(value));
    }
    if (node.rowCount !== null) this.#words.push(node.rowCount.count.slot);
  }

  #constant({ params: { value, shape, dtype }, rowCount: rows }: Node<'constant'>): void {
    this.#words.push(this.#interned.text(dtype));
    this.#pushSizes(shape);
    if (rows !== null) this.#words.push(rows.count.slot);
    if (this.#numberCount === this.#numbers.length) {
      const larger = new Float64Array(this.#numbers.length * 2);
      larger.set(this.#numbers);
      this.#numbers = larger;
    }
    this.#numbers[this.#numberCount++] = value;
  }

  #pushSizes(list: readonly number[]): void {
    this.#words.push(list.length);
    for (const size of list) {
      if (Number.isNaN(size)) this.#words.push(ROW_COUNT);
      else if (isSpecial(size)) this.#words.push(size);
      else {
        this.#words.push(SOME_SIZE);
        if (this.#sizeCount === this.#sizes.length) {
          const larger = new Float64Array(this.#sizes.length * 2);
          larger.set(this.#sizes);
          this.#sizes = larger;
        }
        this.#sizes[this.#sizeCount++] = size;
      }
    }
  }
}

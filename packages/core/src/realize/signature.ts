import { isOp, none, type Node } from '../graph/node.ts';
import type { Subgraph } from './collect.ts';
import { hasSizes, splitParams } from './op-sizes.ts';
import { structureKey } from './structure-key.ts';

/**
 * What a subgraph computes, but for the contents of its leaves. Valid until the next one is made. Subgraphs
 * with equal `words` differ at most in the numbers of their constants and in sizes.
 */
export interface Signature {
  readonly hash: number;
  /** Ops, parameters, sizes of 0 and 1, and connections. */
  readonly words: Int32Array;
  /** The number of each constant, in program order. */
  readonly numbers: Float64Array;
  /** Sizes from 2 on: those of leaves, and those among parameters, in program order. */
  readonly sizes: Float64Array;
}

/** Sizes of 0 and 1 are part of the structure: what is empty or repeated is computed in another way. */
export function isSpecial(size: number): boolean {
  return size < 2;
}

/** Stands for a size that is not special among words; no special size is negative. */
const someSize = -3;

/** Stands for a number of rows that the run computes; which one follows. */
const rowCount = -4;

/**
 * Makes signatures. Shapes of inner nodes follow from leaves, ops and parameters, so only leaves
 * contribute theirs.
 */
export class Signatures {
  readonly #interned = new Map<string, number>();
  #words = new Int32Array(4096);
  #length = 0;
  #numbers = new Float64Array(256);
  #numberCount = 0;
  #sizes = new Float64Array(1024);
  #sizeCount = 0;

  /** Texts that have been seen: they take memory for as long as these signatures are used. */
  get textCount(): number {
    return this.#interned.size;
  }

  of(subgraph: Subgraph, roots: readonly Node[]): Signature {
    this.#length = 0;
    this.#numberCount = 0;
    this.#sizeCount = 0;
    for (const { dtype, shape } of subgraph.leaves) {
      this.#push(this.#intern(dtype));
      this.#pushSizes(shape);
    }
    this.#push(-1);
    let era = 0;
    for (const node of subgraph.computed) {
      if (node.era !== era) this.#push(-2);
      era = node.era;
      this.#push(this.#intern(node.op));
      if (isOp(node, 'constant')) this.#constant(node);
      else if (hasSizes(node)) this.#sized(node);
      else if (node.params !== none) this.#push(this.#intern(structureKey(node.params)));
      for (const input of node.inputs) this.#push(input.slot);
      this.#push(-1);
    }
    for (const root of roots) this.#push(root.slot);
    const words = this.#words.subarray(0, this.#length);
    return {
      hash: hashOf(words),
      words,
      numbers: this.#numbers.subarray(0, this.#numberCount),
      sizes: this.#sizes.subarray(0, this.#sizeCount),
    };
  }

  #sized(node: Node): void {
    const { sizes, rest } = splitParams(node);
    this.#push(this.#intern(structureKey(rest)));
    for (const list of sizes) this.#pushSizes(list);
    if (node.rowCount !== null) this.#push(node.rowCount.count.slot);
  }

  #constant({ params: { value, shape, dtype }, rowCount: rows }: Node<'constant'>): void {
    this.#push(this.#intern(dtype));
    this.#pushSizes(shape);
    if (rows !== null) this.#push(rows.count.slot);
    if (this.#numberCount === this.#numbers.length) {
      const larger = new Float64Array(this.#numbers.length * 2);
      larger.set(this.#numbers);
      this.#numbers = larger;
    }
    this.#numbers[this.#numberCount++] = value;
  }

  #pushSizes(list: readonly number[]): void {
    this.#push(list.length);
    for (const size of list) {
      if (Number.isNaN(size)) this.#push(rowCount);
      else if (isSpecial(size)) this.#push(size);
      else {
        this.#push(someSize);
        if (this.#sizeCount === this.#sizes.length) {
          const larger = new Float64Array(this.#sizes.length * 2);
          larger.set(this.#sizes);
          this.#sizes = larger;
        }
        this.#sizes[this.#sizeCount++] = size;
      }
    }
  }

  #intern(text: string): number {
    let id = this.#interned.get(text);
    if (id === undefined) {
      id = this.#interned.size;
      this.#interned.set(text, id);
    }
    return id;
  }

  #push(word: number): void {
    if (this.#length === this.#words.length) {
      const larger = new Int32Array(this.#words.length * 2);
      larger.set(this.#words);
      this.#words = larger;
    }
    this.#words[this.#length++] = word;
  }
}

/** FNV-1a over words. */
function hashOf(words: Int32Array): number {
  let hash = 0x811c9dc5 | 0;
  for (const word of words) hash = Math.imul(hash ^ word, 0x01000193);
  return hash;
}

export function sameWords(a: Int32Array, b: Int32Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

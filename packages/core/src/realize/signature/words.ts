import { hashOfNumbers } from '../../hash.ts';
import { hashOfData, sameData } from './plain-data.ts';

/** Integers that identify something. Two things with equal words are the same. */
export interface Key {
  readonly hash: number;
  readonly words: Int32Array;
}

/** The word before a number that is not a non-negative 32-bit integer. The 64 bits of the number follow. */
const WIDE = -5;

/** Numbers texts and plain data. Equal ones have the same number. All of them are kept as long as this object. */
export class Interned {
  #size = 0;
  readonly #texts = new Map<string, number>();
  /** By hash, the data that was added last. */
  readonly #data = new Map<number, NumberedData>();

  get size(): number {
    return this.#size;
  }

  text(text: string): number {
    let number = this.#texts.get(text);
    if (number === undefined) {
      number = this.#size++;
      this.#texts.set(text, number);
    }
    return number;
  }

  /** The number of plain data. It keeps the data, which must not change any more. */
  data(data: unknown): number {
    const hash = hashOfData(data);
    const latest = this.#data.get(hash);
    for (let known = latest; known !== undefined; known = known.before) {
      if (sameData(known.data, data)) return known.number;
    }
    const number = this.#size++;
    this.#data.set(hash, { data, number, before: latest });
    return number;
  }
}

interface NumberedData {
  readonly data: unknown;
  readonly number: number;
  /** The data of the same hash that was added before. */
  readonly before: NumberedData | undefined;
}

/** A list of words whose memory is reused after `clear`. */
export class Words {
  #list = new Int32Array(4096);
  #length = 0;

  clear(): void {
    this.#length = 0;
  }

  push(word: number): void {
    if (this.#length === this.#list.length) {
      const larger = new Int32Array(this.#list.length * 2);
      larger.set(this.#list);
      this.#list = larger;
    }
    this.#list[this.#length++] = word;
  }

  /** Adds the length of a list and its numbers, such as the sizes of a shape. */
  pushList(list: readonly number[]): void {
    this.push(list.length);
    for (const number of list) this.pushNumber(number);
  }

  pushNumber(number: number): void {
    if ((number | 0) === number && number >= 0) return this.push(number);
    const bits = new Int32Array(Float64Array.of(number).buffer);
    this.push(WIDE);
    for (const half of bits) this.push(half);
  }

  /** The key of the words. Valid until the list is changed. */
  get key(): Key {
    const words = this.#list.subarray(0, this.#length);
    return { hash: hashOfNumbers(words), words };
  }

  /** The key of the words, in memory of its own, so that it stays valid. */
  ownKey(): Key {
    return { hash: this.key.hash, words: this.key.words.slice() };
  }
}

/** A map from keys to values. */
export class KeyMap<Value> {
  readonly #byHash = new Map<number, (readonly [words: Int32Array, value: Value])[]>();

  get({ hash, words }: Key): Value | undefined {
    return this.#byHash.get(hash)?.find(([known]) => sameWords(known, words))?.[1];
  }

  /** Adds the value of a new key. It keeps the words of the key, which must not change any more. */
  add({ hash, words }: Key, value: Value): void {
    const same = this.#byHash.get(hash);
    if (same === undefined) this.#byHash.set(hash, [[words, value]]);
    else same.push([words, value]);
  }

  delete({ hash, words }: Key): void {
    const others = this.#byHash.get(hash)?.filter(([known]) => !sameWords(known, words)) ?? [];
    if (others.length > 0) this.#byHash.set(hash, others);
    else this.#byHash.delete(hash);
  }

  clear(): void {
    this.#byHash.clear();
  }
}

function sameWords(a: Int32Array, b: Int32Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

import type { NativeCode } from '../../memory/executable-memory.ts';
import { changesWords } from '../../emit/x64/loops/loop-frame.ts';
import { addressOf as hostAddress } from '../../memory/host-address.ts';
import { type LinkedLoops, type LoopCall, callWords } from '../../lanes/loop-code.ts';

/** Calls of loops on one memory. Native code is called once, and carries out all of them. */
export class CallList implements LinkedLoops {
  readonly #code: NativeCode;
  readonly #base: bigint;
  /** The words that the code is called with. If the code changes them, each run copies #given here first. */
  readonly #words: BigUint64Array;
  readonly #given: BigUint64Array;
  readonly #isChanged: boolean;
  #placed: ((value: number) => number) | undefined;
  /** The word of each address, and the value that the address belongs to. */
  readonly #places: readonly {
    readonly word: number;
    readonly value: number;
    readonly byteOffset: number;
  }[];

  constructor(memory: WebAssembly.Memory, code: NativeCode, calls: readonly LoopCall[]) {
    this.#code = code;
    this.#base = hostAddress(new Uint8Array(memory.buffer));
    const count = calls.reduce((sum, call) => sum + wordsOf(call), 1);
    this.#words = new BigUint64Array(new ArrayBuffer(8 * count));
    this.#given = new BigUint64Array(count);
    this.#isChanged = calls.some(changesWords);
    let next = 0;
    this.#places = calls.flatMap((call) => {
      const { routine, numbers, values, byteOffsets } = call;
      const start = next;
      this.#given.set([routine, ...[8 * wordsOf(call), ...numbers].map(BigInt)], start);
      next += wordsOf(call);
      return values.map((value, operand) => ({
        word: start + callWords.rows + numbers.length + operand,
        value,
        byteOffset: byteOffsets?.[operand] ?? 0,
      }));
    });
  }

  run(addressOf: (value: number) => number): void {
    const isPlaced = addressOf === this.#placed;
    if (!isPlaced) {
      for (const { word, value, byteOffset } of this.#places) {
        this.#given[word] = this.#base + BigInt(addressOf(value) + byteOffset);
      }
      this.#placed = addressOf;
    }
    if (!isPlaced || this.#isChanged) this.#words.set(this.#given);
    this.#code(this.#words);
  }
}

const wordsOf = ({ numbers, values }: LoopCall): number =>
  callWords.rows + numbers.length + values.length;

import { addressOf as hostAddress } from '../onnx/runtime/api.ts';
import type { NativeCode } from '../machine-code/code-pages.ts';
import type { LinkedLoops, LoopCall } from './loop-code.ts';
import { callWords } from './loop-frame.ts';

/** Calls of loops that machine code carries out in one go, on a memory. */
export class CallList implements LinkedLoops {
  readonly #code: NativeCode;
  readonly #base: bigint;
  readonly #words: BigUint64Array;
  /** The word of each address, and the value whose address it is. */
  readonly #places: readonly { readonly word: number; readonly value: number }[];

  constructor(memory: WebAssembly.Memory, code: NativeCode, calls: readonly LoopCall[]) {
    this.#code = code;
    this.#base = hostAddress(new Uint8Array(memory.buffer));
    const count = calls.reduce((sum, call) => sum + wordsOf(call), 1);
    this.#words = new BigUint64Array(new ArrayBuffer(8 * count));
    let next = 0;
    this.#places = calls.flatMap((call) => {
      const { routine, rows, columns, values } = call;
      const start = next;
      const numbers = [8 * wordsOf(call), rows, columns, 0].map(BigInt);
      this.#words.set([routine, ...numbers], start);
      next += wordsOf(call);
      return values.map((value, operand) => ({
        word: start + callWords.addresses + operand,
        value,
      }));
    });
  }

  run(addressOf: (value: number) => number): void {
    for (const { word, value } of this.#places) {
      this.#words[word] = this.#base + BigInt(addressOf(value));
    }
    this.#code(this.#words);
  }
}

const wordsOf = ({ values }: LoopCall): number => callWords.addresses + values.length;

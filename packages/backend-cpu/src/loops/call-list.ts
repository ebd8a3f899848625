import { addressOf as hostAddress } from '../onnx/runtime/api.ts';
import type { Address } from '../machine-code/code-pages.ts';
import type { LoopCode } from './loop-machine.ts';
import { callWords } from './loop-frame.ts';

/** One call of a routine. */
export interface LoopCall {
  readonly routine: Address;
  readonly rows: number;
  readonly columns: number;
  /** Values whose addresses it takes. */
  readonly values: readonly number[];
}

/** Calls of loops that machine code carries out in one go, on a memory. */
export class CallList {
  readonly #code: LoopCode;
  readonly #calls: readonly LoopCall[];
  readonly #base: bigint;
  readonly #words: BigUint64Array;

  constructor(memory: WebAssembly.Memory, code: LoopCode, calls: readonly LoopCall[]) {
    this.#code = code;
    this.#calls = calls;
    this.#base = hostAddress(new Uint8Array(memory.buffer));
    const count = calls.reduce((sum, call) => sum + wordsOf(call), 1);
    this.#words = new BigUint64Array(new ArrayBuffer(8 * count));
  }

  run(addressOf: (value: number) => number): void {
    let word = 0;
    for (const call of this.#calls) {
      const { routine, rows, columns, values } = call;
      this.#words[word + callWords.routine] = routine;
      this.#words[word + callWords.byteLength] = BigInt(8 * wordsOf(call));
      this.#words[word + callWords.rows] = BigInt(rows);
      this.#words[word + callWords.columns] = BigInt(columns);
      for (const [operand, value] of values.entries()) {
        this.#words[word + callWords.addresses + operand] = this.#base + BigInt(addressOf(value));
      }
      word += wordsOf(call);
    }
    this.#code.run(this.#words);
  }
}

const wordsOf = ({ values }: LoopCall): number => callWords.addresses + values.length;

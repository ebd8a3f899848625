import { DataError } from '../spec/errors.ts';
import { checkIndex, type Dataset } from './dataset.ts';
import { type NDArray, ndArray } from '../tensor/nd-array.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRule, OptionRules } from '../base/option-rules.ts';

/** A window of a text. `y` is the window one byte later. Shape: x [T], y [T]. */
export type TextSample = {
  readonly x: NDArray<'i32'>;
  readonly y: NDArray<'i32'>;
};

/** Options of `TextDataset`. */
export interface TextDatasetOptions {
  /** T, the number of bytes that a model sees at once. */
  readonly contextLength: number;
  /**
   * The number of bytes from the start of one window to the start of the next. Default: `contextLength`, so
   * that windows do not overlap.
   */
  readonly stride?: number;
}

const bytesRule: OptionRule<Uint8Array> = {
  fits: (value): value is Uint8Array => value instanceof Uint8Array,
  expected: 'a Uint8Array',
};
const bytesRules = { bytes: option.required(bytesRule) };
const splitRules = { ...bytesRules, validationFraction: option.required(option.fraction) };
const textRules: OptionRules<TextDatasetOptions> = {
  contextLength: option.required(option.integer(1)),
  stride: option.integer(1),
};

/** Windows of a long text. Each byte is a token, so the vocabulary is the 256 bytes. */
export class TextDataset implements Dataset<TextSample> {
  readonly length: number;
  readonly #bytes: Uint8Array;
  readonly #contextLength: number;
  readonly #stride: number;

  /** Throws DataError if the text is shorter than a window, which has T + 1 bytes. */
  constructor(bytes: Uint8Array, options: TextDatasetOptions) {
    checkOptions('TextDataset', options, textRules);
    checkOptions('TextDataset', { bytes }, bytesRules);
    const { contextLength, stride = contextLength } = options;
    if (bytes.length < contextLength + 1) {
      throw new DataError(
        {
          asked: `windows of ${contextLength} bytes and the byte after`,
          found: `a text of ${bytes.length} bytes`,
          todo: `Use a longer text, or a context of at most ${Math.max(bytes.length - 1, 0)} bytes`,
        },
        { contextLength, bytes: bytes.length },
      );
    }
    this.length = Math.floor((bytes.length - contextLength - 1) / stride) + 1;
    this.#bytes = bytes;
    this.#contextLength = contextLength;
    this.#stride = stride;
  }

  get(index: number): TextSample {
    checkIndex(index, this.length);
    const start = index * this.#stride;
    const stop = start + this.#contextLength;
    return {
      x: ndArray(Int32Array.from(this.#bytes.subarray(start, stop))),
      y: ndArray(Int32Array.from(this.#bytes.subarray(start + 1, stop + 1))),
    };
  }
}

/**
 * Splits a text into its beginning for training and its end for validation. The two share no byte. The cut is at
 * floor(length * (1 - validationFraction)).
 */
export function splitText(
  bytes: Uint8Array,
  validationFraction: number,
): { readonly train: Uint8Array; readonly validation: Uint8Array } {
  checkOptions('splitText', { bytes, validationFraction }, splitRules);
  const cut = Math.floor(bytes.length * (1 - validationFraction));
  return { train: bytes.subarray(0, cut), validation: bytes.subarray(cut) };
}

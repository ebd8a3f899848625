import { DataError } from '@shardwise/core/extend';

/** What stands for bytes that are no whole character. */
const INCOMPLETE = '\ufffd';

/**
 * Makes text of tokens as they come. A token may be a part of a character only: its bytes are held back until the
 * character is whole.
 */
export class TextStream {
  readonly #decode: (ids: readonly number[]) => string;
  /** The tokens since the last but one text that was handed out: what comes next may depend on what is before it. */
  #ids: number[] = [];
  /** How many of them have been handed out. */
  #handedOut = 0;
  #isOver = false;

  constructor(decode: (ids: readonly number[]) => string) {
    this.#decode = decode;
  }

  /** Takes the next token, and returns the text that is known with it, which may be empty. */
  push(id: number): string {
    if (this.#isOver) {
      throw new DataError(
        {
          asked: `to decode the token ${id} after the end of a stream`,
          found: 'that end() was called',
          todo: 'Begin another stream with decodeStream()',
        },
        { id },
      );
    }
    this.#ids.push(id);
    const text = this.#decode(this.#ids);
    const before = this.#decode(this.#ids.slice(0, this.#handedOut));
    if (text.endsWith(INCOMPLETE) || text.length <= before.length || !text.startsWith(before)) {
      return '';
    }
    this.#ids = this.#ids.slice(this.#handedOut);
    this.#handedOut = this.#ids.length;
    return text.slice(before.length);
  }

  /** Ends the stream, and returns what was held back: U+FFFD for bytes that are no character. */
  end(): string {
    this.#isOver = true;
    const text = this.#decode(this.#ids);
    const before = this.#decode(this.#ids.slice(0, this.#handedOut));
    return text.startsWith(before)
      ? text.slice(before.length)
      : this.#decode(this.#ids.slice(this.#handedOut));
  }
}

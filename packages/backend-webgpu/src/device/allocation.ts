/**
 * The most words that are looked through when they are written. Indices are few, and the bounds of other values are
 * never needed.
 */
const MAX_WORDS = 1 << 20;

/** The least and the greatest of the words in a range, as signed integers. */
interface Known {
  readonly byteOffset: number;
  readonly byteLength: number;
  readonly least: number;
  readonly greatest: number;
}

/** A buffer of the device, which its sub-buffers share, and what is known of its contents. */
export class Allocation {
  /** Undefined once it has been freed. */
  buffer: GPUBuffer | undefined;
  /** Ranges that do not overlap, and that nothing has written since. */
  #known: Known[] = [];

  constructor(buffer: GPUBuffer | undefined) {
    this.buffer = buffer;
  }

  /** Notes that the host writes `words`. */
  note(byteOffset: number, byteLength: number, words: Int32Array): void {
    this.forget(byteOffset, byteLength);
    if (words.length === 0 || words.length > MAX_WORDS) return;
    let [least, greatest] = [2 ** 31 - 1, -(2 ** 31)];
    for (const word of words) {
      if (word < least) least = word;
      if (word > greatest) greatest = word;
    }
    this.noteBounds(byteOffset, byteLength, { least, greatest });
  }

  /** Notes the bounds of words that a program writes. */
  noteBounds(
    byteOffset: number,
    byteLength: number,
    { least, greatest }: { readonly least: number; readonly greatest: number },
  ): void {
    this.#known.push({ byteOffset, byteLength, least, greatest });
  }

  /** Notes that something unknown is written. */
  forget(byteOffset: number, byteLength: number): void {
    const end = byteOffset + byteLength;
    if (this.#known.length === 0) return;
    this.#known = this.#known.filter(
      (range) => range.byteOffset >= end || range.byteOffset + range.byteLength <= byteOffset,
    );
  }

  /** The bounds of a range that lies inside one that was written at once. */
  bounds(byteOffset: number, byteLength: number): Known | undefined {
    return this.#known.find(
      (range) =>
        range.byteOffset <= byteOffset &&
        byteOffset + byteLength <= range.byteOffset + range.byteLength,
    );
  }
}

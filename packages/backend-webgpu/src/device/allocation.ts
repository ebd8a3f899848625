/** Words that are looked through when they are written, at most: indices are few, and other values are not asked for. */
const mostWords = 1 << 20;

/** The least and the greatest of the words that are somewhere, as signed integers. */
interface Known {
  readonly byteOffset: number;
  readonly byteLength: number;
  readonly least: number;
  readonly greatest: number;
}

/** What a device keeps of an allocation, which its sub-buffers share. */
export class Allocation {
  /** Undefined once it has been freed. */
  buffer: GPUBuffer | undefined;
  /** Of ranges that do not overlap, and that nothing has written since. */
  #known: Known[] = [];

  constructor(buffer: GPUBuffer | undefined) {
    this.buffer = buffer;
  }

  /** The host writes `words`. */
  note(byteOffset: number, byteLength: number, words: Int32Array): void {
    this.forget(byteOffset, byteLength);
    if (words.length === 0 || words.length > mostWords) return;
    let [least, greatest] = [2 ** 31 - 1, -(2 ** 31)];
    for (const word of words) {
      if (word < least) least = word;
      if (word > greatest) greatest = word;
    }
    this.noteBounds(byteOffset, byteLength, { least, greatest });
  }

  /** A program writes words of which this is known. */
  noteBounds(
    byteOffset: number,
    byteLength: number,
    { least, greatest }: { readonly least: number; readonly greatest: number },
  ): void {
    this.#known.push({ byteOffset, byteLength, least, greatest });
  }

  /** Something is written there that is not known. */
  forget(byteOffset: number, byteLength: number): void {
    const end = byteOffset + byteLength;
    if (this.#known.length === 0) return;
    this.#known = this.#known.filter(
      (range) => range.byteOffset >= end || range.byteOffset + range.byteLength <= byteOffset,
    );
  }

  /** Bounds of the words of a range that was written at once. */
  bounds(byteOffset: number, byteLength: number): Known | undefined {
    return this.#known.find(
      (range) =>
        range.byteOffset <= byteOffset &&
        byteOffset + byteLength <= range.byteOffset + range.byteLength,
    );
  }
}

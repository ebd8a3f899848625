/** Words that are looked through when they are written, at most: indices are few, and other values are not asked for. */
const mostWords = 1 << 20;

/** The least and the greatest of the words that the host wrote somewhere, as signed integers. */
interface Written {
  readonly byteOffset: number;
  readonly byteLength: number;
  readonly least: number;
  readonly greatest: number;
}

/** What a device keeps of an allocation, which its sub-buffers share. */
export class Allocation {
  /** Undefined once it has been freed. */
  buffer: GPUBuffer | undefined;
  /** Of ranges that do not overlap: what the host wrote, and nothing has written since. */
  #written: Written[] = [];

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
    this.#written.push({ byteOffset, byteLength, least, greatest });
  }

  /** Something else than the host writes there. */
  forget(byteOffset: number, byteLength: number): void {
    const end = byteOffset + byteLength;
    if (this.#written.length === 0) return;
    this.#written = this.#written.filter(
      (range) => range.byteOffset >= end || range.byteOffset + range.byteLength <= byteOffset,
    );
  }

  /** Bounds of the words of a range that the host wrote at once. */
  bounds(byteOffset: number, byteLength: number): Written | undefined {
    return this.#written.find(
      (range) =>
        range.byteOffset <= byteOffset &&
        byteOffset + byteLength <= range.byteOffset + range.byteLength,
    );
  }
}

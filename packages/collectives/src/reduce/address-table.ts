/** The bytes of an address in a table, even if the memory's own addresses have 32 bits. */
export const ADDRESS_BYTES = 8;

/** Addresses in memory, for a kernel that takes any number of them. */
export class AddressTable {
  readonly byteOffset: number;
  readonly #words: Uint32Array;

  /** The table begins at `byteOffset`, which is a multiple of 4. */
  constructor(memory: WebAssembly.Memory, byteOffset: number) {
    this.byteOffset = byteOffset;
    this.#words = new Uint32Array(memory.buffer, byteOffset);
  }

  /** Writes addresses from index `start` of the table on. Returns the byte offset after the last one. */
  write(addresses: readonly number[], start: number): number {
    let word = 2 * start;
    for (const address of addresses) {
      this.#words[word] = address;
      this.#words[word + 1] = Math.floor(address / 2 ** 32);
      word += 2;
    }
    return this.byteOffset + 4 * word;
  }
}

/** Of an address in a table, whatever the memory's addresses have. */
export const ADDRESS_BYTES = 8;

/** Addresses in memory, for a kernel that takes any number of them. */
export class AddressTable {
  readonly byteOffset: number;
  readonly #words: Uint32Array;

  /** From `byteOffset` on, a multiple of 4. */
  constructor(memory: WebAssembly.Memory, byteOffset: number) {
    this.byteOffset = byteOffset;
    this.#words = new Uint32Array(memory.buffer, byteOffset);
  }

  /** Writes addresses from place `start` on; returns the byte behind them. */
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

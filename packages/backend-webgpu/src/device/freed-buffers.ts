/** The most bytes that are kept. */
const MAX_BYTES = 256 << 20;

/**
 * Freed buffers of the device, kept for the next buffers of the same sizes. Of several, the one that was kept first in
 * its life is taken. So which buffers a step gets depends only on which ones are free when it begins, and steps that
 * allocate the same sizes soon get the same buffers each time.
 */
export class FreedBuffers {
  readonly #ofSize = new Map<number, GPUBuffer[]>();
  readonly #numbers = new WeakMap<GPUBuffer, number>();
  #next = 0;
  #bytes = 0;

  /** Keeps a buffer, unless that would be too many bytes. Returns whether it did. */
  keep(buffer: GPUBuffer): boolean {
    if (this.#bytes + buffer.size > MAX_BYTES) return false;
    this.#bytes += buffer.size;
    const number = this.#numbers.get(buffer) ?? this.#next++;
    this.#numbers.set(buffer, number);
    const kept = this.#ofSize.get(buffer.size);
    if (kept === undefined) this.#ofSize.set(buffer.size, [buffer]);
    else {
      const at = kept.findLastIndex((other) => (this.#numbers.get(other) ?? 0) > number);
      kept.splice(at + 1, 0, buffer);
    }
    return true;
  }

  /** Returns a kept buffer of this size, if there is one. */
  take(byteLength: number): GPUBuffer | undefined {
    const buffer = this.#ofSize.get(byteLength)?.pop();
    if (buffer !== undefined) this.#bytes -= byteLength;
    return buffer;
  }
}

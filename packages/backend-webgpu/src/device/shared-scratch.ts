import type { GpuBuffer } from './gpu-buffer.ts';

/** What gives pages. Throws OutOfMemoryError if there is no room for one. */
interface PageMemory {
  alloc(byteLength: number): GpuBuffer;
  free(page: GpuBuffer): unknown;
}

/**
 * The memory for temporary values of programs. A device carries out one program after the other, so all programs have their
 * temporary values in the same pages, which are as large as the program with the largest ones needs.
 */
export class SharedScratch {
  readonly #memory: PageMemory;
  /** The bytes of the pages of each program. */
  readonly #reserved = new Set<readonly number[]>();
  readonly #pages = new Map<number, GpuBuffer>();

  constructor(memory: PageMemory) {
    this.#memory = memory;
  }

  /**
   * Has pages of at least these bytes until `release` is called with the same list. Throws OutOfMemoryError, after which
   * nothing is reserved.
   */
  reserve(pageBytes: readonly number[]): void {
    this.#reserved.add(pageBytes);
    try {
      this.#fit();
    } catch (error) {
      this.release(pageBytes);
      throw error;
    }
  }

  release(pageBytes: readonly number[]): void {
    this.#reserved.delete(pageBytes);
    this.#fit();
  }

  /** The pages for a program. They can be other ones after any call of `reserve` or `release`. */
  pages(count: number): readonly GpuBuffer[] {
    return Array.from({ length: count }, (_, number) => {
      const page = this.#pages.get(number);
      if (page === undefined) throw new RangeError(`page ${number} is not reserved`);
      return page;
    });
  }

  /** A page is freed before its larger or smaller successor is allocated, so that both are never there at once. */
  #fit(): void {
    const needed = new Map<number, number>();
    for (const pageBytes of this.#reserved) {
      for (const [number, bytes] of pageBytes.entries())
        needed.set(number, Math.max(bytes, needed.get(number) ?? 0));
    }
    for (const [number, page] of this.#pages) {
      if (page.byteLength === needed.get(number)) continue;
      this.#memory.free(page);
      this.#pages.delete(number);
    }
    for (const [number, bytes] of needed)
      if (!this.#pages.has(number)) this.#pages.set(number, this.#memory.alloc(bytes));
  }
}

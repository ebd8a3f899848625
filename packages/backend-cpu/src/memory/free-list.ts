interface Block {
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** The unused ranges of a region, sorted by offset. No two of them are adjacent. */
export class FreeList {
  readonly #blocks: Block[];

  constructor(byteOffset: number, byteLength: number) {
    this.#blocks = [{ byteOffset, byteLength }];
  }

  get largestBytes(): number {
    return this.#blocks.reduce((largest, block) => Math.max(largest, block.byteLength), 0);
  }

  /**
   * Takes the first bytes of the smallest block that is large enough (best fit). Returns their offset, or undefined if no
   * block is.
   */
  takeSmallest(byteLength: number): number | undefined {
    let bestIndex = -1;
    let best: Block | undefined;
    for (const [index, block] of this.#blocks.entries()) {
      if (block.byteLength < byteLength) continue;
      if (best !== undefined && best.byteLength <= block.byteLength) continue;
      best = block;
      bestIndex = index;
      if (block.byteLength === byteLength) break;
    }
    if (best === undefined) return undefined;
    const rest = {
      byteOffset: best.byteOffset + byteLength,
      byteLength: best.byteLength - byteLength,
    };
    this.#blocks.splice(bestIndex, 1, ...(rest.byteLength > 0 ? [rest] : []));
    return best.byteOffset;
  }

  /**
   * Takes the last bytes of the last block that is large enough (first fit from the end). Returns their offset, or
   * undefined if no block is.
   */
  takeLast(byteLength: number): number | undefined {
    const index = this.#blocks.findLastIndex((block) => block.byteLength >= byteLength);
    const last = this.#blocks[index];
    if (last === undefined) return undefined;
    const rest = { byteOffset: last.byteOffset, byteLength: last.byteLength - byteLength };
    this.#blocks.splice(index, 1, ...(rest.byteLength > 0 ? [rest] : []));
    return rest.byteOffset + rest.byteLength;
  }

  /** Gives a taken range back and joins it with its neighbours. */
  give(byteOffset: number, byteLength: number): void {
    const index = this.#firstAfter(byteOffset);
    const before = this.#blocks[index - 1];
    const after = this.#blocks[index];
    const joinsBefore =
      before !== undefined && before.byteOffset + before.byteLength === byteOffset;
    const joinsAfter = after !== undefined && byteOffset + byteLength === after.byteOffset;
    const start = joinsBefore ? before.byteOffset : byteOffset;
    const end = joinsAfter ? after.byteOffset + after.byteLength : byteOffset + byteLength;
    this.#blocks.splice(joinsBefore ? index - 1 : index, Number(joinsBefore) + Number(joinsAfter), {
      byteOffset: start,
      byteLength: end - start,
    });
  }

  #firstAfter(byteOffset: number): number {
    let low = 0;
    let high = this.#blocks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const block = this.#blocks[middle];
      if (block !== undefined && block.byteOffset < byteOffset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

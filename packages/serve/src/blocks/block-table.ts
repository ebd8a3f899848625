import type { BlockAllocator, BlockCopy, ContentParent } from './block-allocator.ts';

/**
 * Where the keys and values of a sequence lie: its blocks, in the order of its tokens. All blocks but the last one are
 * full, so that nothing else of the cache is wasted.
 */
export class BlockTable {
  readonly #allocator: BlockAllocator;
  readonly #blockSize: number;
  readonly #salt: string;
  readonly #blocks: number[] = [];
  /** The numbers of the contents of the first blocks, as far as they have been sealed or found. */
  readonly #contents: number[] = [];
  #length = 0;

  /** Tables with another `salt` never share blocks with this one, as those of another tenant or adapter. */
  constructor(allocator: BlockAllocator, blockSize: number, salt = '') {
    this.#allocator = allocator;
    this.#blockSize = blockSize;
    this.#salt = salt;
  }

  get blocks(): readonly number[] {
    return this.#blocks;
  }

  /** The number of tokens that have a place. */
  get length(): number {
    return this.#length;
  }

  /** How many blocks must be available for `count` more tokens. */
  blocksFor(count: number): number {
    const added = Math.ceil((this.#length + count) / this.#blockSize) - this.#blocks.length;
    return added + Number(count > 0 && this.#sharesLast());
  }

  /**
   * Makes places for `count` more tokens. If the last block has room and others use it too, it is replaced by a copy,
   * which the caller makes before it writes.
   */
  append(count: number): readonly BlockCopy[] {
    const copies: BlockCopy[] = [];
    if (count > 0 && this.#sharesLast()) {
      const from = this.#blocks.at(-1) ?? 0;
      const to = this.#allocator.allocate();
      this.#blocks[this.#blocks.length - 1] = to;
      this.#allocator.release(from);
      copies.push({ from, to });
    }
    this.#length += count;
    while (this.#blocks.length * this.#blockSize < this.#length) {
      this.#blocks.push(this.#allocator.allocate());
    }
    return copies;
  }

  /** Takes the places behind the first `length` tokens away, and gives blocks back that no token has. */
  truncate(length: number): void {
    this.#length = Math.min(this.#length, length);
    const needed = Math.ceil(this.#length / this.#blockSize);
    for (const block of this.#blocks.splice(needed).toReversed()) this.#allocator.release(block);
  }

  /** The place of a token in the cache: the number of its block times the size of a block, plus its place there. */
  slotOf(position: number): number {
    const block = this.#blocks[Math.floor(position / this.#blockSize)] ?? 0;
    return block * this.#blockSize + (position % this.#blockSize);
  }

  /**
   * Begins with blocks that already have the first tokens, and returns how many tokens these are. The last token is never
   * among them, because the model must compute it to know the next one. Only for a table without blocks.
   */
  adoptPrefix(tokens: readonly number[]): number {
    for (const { block, number } of this.#prefixOf(tokens)) {
      this.#allocator.share(block);
      this.#blocks.push(block);
      this.#contents.push(number);
      this.#length += this.#blockSize;
    }
    return this.#length;
  }

  /** How many of the first tokens other blocks already have. They are not taken, and count as not used. */
  knownLength(tokens: readonly number[]): number {
    return [...this.#prefixOf(tokens)].length * this.#blockSize;
  }

  /**
   * How many blocks must be available for the first `count` tokens behind those that other blocks already have, or behind
   * `length` tokens that the sequence brings, if these are more.
   */
  blocksToBegin(tokens: readonly number[], count: number, length = 0): number {
    const found = [...this.#prefixOf(tokens)];
    const known = found.length * this.#blockSize;
    const ends = Math.min(tokens.length, Math.max(known, length) + count);
    // A kept block that is shared is no longer available.
    const kept = found.filter(({ block }) => this.#allocator.usesOf(block) === 0).length;
    return Math.ceil(ends / this.#blockSize) - found.length + kept;
  }

  /** Says that the keys and values of the first `length` tokens are written, so that others may begin with them. */
  seal(tokens: readonly number[], length: number): void {
    for (let index = this.#contents.length; (index + 1) * this.#blockSize <= length; index++) {
      const [block, start] = [this.#blocks[index], index * this.#blockSize];
      if (block === undefined) return;
      const parent: ContentParent = this.#contents[index - 1] ?? { salt: this.#salt };
      const own = tokens.slice(start, start + this.#blockSize);
      this.#contents.push(this.#allocator.seal(block, parent, own));
    }
  }

  /** A table with the same tokens in the same blocks. */
  fork(): BlockTable {
    const copy = new BlockTable(this.#allocator, this.#blockSize, this.#salt);
    for (const block of this.#blocks) this.#allocator.share(block);
    copy.#blocks.push(...this.#blocks);
    copy.#contents.push(...this.#contents);
    copy.#length = this.#length;
    return copy;
  }

  /** Gives all blocks back. The last ones come first, because more sequences begin like this one than continue like it. */
  release(): void {
    for (const block of this.#blocks.toReversed()) this.#allocator.release(block);
    this.#blocks.length = 0;
    this.#contents.length = 0;
    this.#length = 0;
  }

  *#prefixOf(tokens: readonly number[]): Generator<{ block: number; number: number }> {
    let parent: ContentParent = { salt: this.#salt };
    for (let end = this.#blockSize; end < tokens.length; end += this.#blockSize) {
      const found = this.#allocator.find(parent, tokens.slice(end - this.#blockSize, end));
      if (found === null) return;
      yield found;
      parent = found.number;
    }
  }

  #sharesLast(): boolean {
    const last = this.#blocks.at(-1);
    const hasRoom = this.#length % this.#blockSize > 0;
    return hasRoom && last !== undefined && this.#allocator.usesOf(last) > 1;
  }
}

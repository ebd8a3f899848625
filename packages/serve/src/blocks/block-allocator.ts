import { TensorStateError } from '@shardwise/core/extend';

/** What a full block contains: its place in the tree of all contents that blocks have. */
export interface BlockContent {
  /** The number of this content. Content that continues it names it as its parent. */
  readonly number: number;
  readonly key: string;
}

/** A block that is copied to another one before a sequence writes it, because others read it too. */
export interface BlockCopy {
  readonly from: number;
  readonly to: number;
}

/** What stands before a block: the content of the block before it, or at the beginning a name that keeps contents apart. */
export type ContentParent = number | { readonly salt: string };

/**
 * Counts who uses each block of a paged cache. A block is free, used by one or more sequences, or kept: used by none,
 * but with a content that a later sequence may begin with. If no block is free, the kept block that was used least
 * recently loses its content.
 *
 * Contents are compared as they are: the key of a block is the number of the content before it, and its own tokens. So
 * no sequence ever reads keys and values of other tokens than its own, which a collision of hashes would allow.
 */
export class BlockAllocator {
  readonly blockCount: number;
  readonly #uses: Int32Array;
  readonly #contents = new Map<number, BlockContent>();
  /** Blocks without a user and without a content that were used before. The last one is taken first. */
  readonly #free: number[] = [];
  /** Blocks from this one on have never been used. They are free, too, and not listed, as a large cache has many. */
  #unused = 0;
  /** Blocks without a user that have a content. The least recently used one comes first. */
  readonly #kept = new Set<number>();
  readonly #blockOf = new Map<string, number>();
  #nextContent = 0;

  constructor(blockCount: number) {
    this.blockCount = blockCount;
    this.#uses = new Int32Array(blockCount);
  }

  /** The number of blocks that can be allocated: free ones and kept ones. */
  get available(): number {
    return this.#free.length + this.blockCount - this.#unused + this.#kept.size;
  }

  /** The number of blocks that sequences use. */
  get used(): number {
    return this.blockCount - this.available;
  }

  /** The number of blocks that nobody uses and whose content is kept. */
  get kept(): number {
    return this.#kept.size;
  }

  get keptBlocks(): readonly number[] {
    return [...this.#kept];
  }

  /** How many sequences use a block. */
  usesOf(block: number): number {
    return this.#uses[block] ?? 0;
  }

  /** Takes a block for one user. Throws TensorStateError if none is available, which callers check first. */
  allocate(): number {
    const block = this.#free.pop() ?? this.#takeUnused() ?? this.#evict();
    if (block === undefined) throw noBlock(this.blockCount);
    this.#uses[block] = 1;
    return block;
  }

  /** Adds a user to a block that is used or kept. */
  share(block: number): void {
    this.#uses[block] = this.usesOf(block) + 1;
    this.#kept.delete(block);
  }

  /** Takes a user from a block. Throws TensorStateError for a block that nobody uses. */
  release(block: number): void {
    const uses = this.usesOf(block) - 1;
    if (uses < 0) throw notUsed(block);
    this.#uses[block] = uses;
    if (uses > 0) return;
    if (this.#contents.has(block)) this.#kept.add(block);
    else this.#free.push(block);
  }

  /** The block that has these tokens behind a parent's, if one has them. */
  find(
    parent: ContentParent,
    tokens: readonly number[],
  ): (BlockContent & { readonly block: number }) | null {
    const block = this.#blockOf.get(keyOf(parent, tokens));
    const content = block === undefined ? undefined : this.#contents.get(block);
    return block === undefined || content === undefined ? null : { ...content, block };
  }

  /**
   * Says that a block is full, and with which tokens. If another block has the same content, that one stays the one that
   * is found. Returns the number of the content.
   */
  seal(block: number, parent: ContentParent, tokens: readonly number[]): number {
    const known = this.find(parent, tokens);
    if (known !== null) return known.number;
    const key = keyOf(parent, tokens);
    const number = this.#nextContent++;
    this.#contents.set(block, { number, key });
    this.#blockOf.set(key, block);
    return number;
  }

  /** Forgets all contents, as when the weights that made them have changed. Users keep their blocks. */
  forget(): void {
    this.#blockOf.clear();
    this.#contents.clear();
    for (const block of this.#kept) this.#free.push(block);
    this.#kept.clear();
  }

  /**
   * What contradicts itself, given all blocks that sequences use, each as often as it is used. Empty if all is well. Tests
   * ask after every step.
   */
  faults(usedBlocks: readonly number[]): readonly string[] {
    const expected = new Int32Array(this.blockCount);
    for (const block of usedBlocks) expected[block] = (expected[block] ?? 0) + 1;
    const free = new Set(this.#free);
    const faults: string[] = [];
    if (free.size !== this.#free.length) faults.push('a block is free twice');
    if (this.#free.some((block) => block >= this.#unused)) faults.push('an unused block is listed');
    for (let block = 0; block < this.blockCount; block++) {
      const uses = this.usesOf(block);
      if (uses !== expected[block]) {
        faults.push(`block ${block} counts ${uses} uses and has ${expected[block]}`);
      }
      const isFree = free.has(block) || block >= this.#unused;
      const places = [uses > 0, isFree, this.#kept.has(block)].filter(Boolean).length;
      if (places !== 1) faults.push(`block ${block} is in ${places} of: used, free, kept`);
      const content = this.#contents.get(block);
      if (this.#kept.has(block) && content === undefined) {
        faults.push(`kept block ${block} is empty`);
      }
      if (content !== undefined && this.#blockOf.get(content.key) !== block) {
        faults.push(`the content of block ${block} is not found`);
      }
    }
    return faults;
  }

  #takeUnused(): number | undefined {
    return this.#unused < this.blockCount ? this.#unused++ : undefined;
  }

  #evict(): number | undefined {
    const [block] = this.#kept;
    if (block === undefined) return undefined;
    this.#kept.delete(block);
    const content = this.#contents.get(block);
    if (content !== undefined) this.#blockOf.delete(content.key);
    this.#contents.delete(block);
    return block;
  }
}

function keyOf(parent: ContentParent, tokens: readonly number[]): string {
  const before = typeof parent === 'number' ? `${parent}` : `~${parent.salt}`;
  return `${before}:${tokens.join()}`;
}

function noBlock(blockCount: number): TensorStateError {
  return new TensorStateError(
    {
      asked: 'another block of the cache',
      found: `all ${blockCount} are in use`,
      todo: 'Release blocks first: check `available`',
    },
    { blockCount },
  );
}

function notUsed(block: number): TensorStateError {
  return new TensorStateError(
    {
      asked: `to release block ${block} of the cache`,
      found: 'nobody uses it',
      todo: 'Release each block once',
    },
    { block },
  );
}

import { BlockAllocator } from '../blocks/block-allocator.ts';
import { BlockTable } from '../blocks/block-table.ts';

const BLOCK_SIZE = 16;

/**
 * What the cache of a replica may have: the prompts that it was given, kept as the cache itself keeps them, in blocks whose
 * contents are found by what stands before them. Of a full table, the block that was used least recently is forgotten.
 */
export class KnownPrefixes {
  readonly #allocator: BlockAllocator;

  /** Keeps at most `maxTokens` tokens of prompts. */
  constructor(maxTokens: number) {
    this.#allocator = new BlockAllocator(Math.floor(maxTokens / BLOCK_SIZE));
  }

  /** How many of the first tokens of a prompt are known. Prompts of different salts share nothing. */
  lengthOf(prompt: readonly number[], salt: string): number {
    return this.#table(salt).knownLength(prompt);
  }

  /** Adds the whole blocks of a prompt, as many as there is room for. */
  add(prompt: readonly number[], salt: string): void {
    const blocks = Math.floor(prompt.length / BLOCK_SIZE);
    const length = Math.min(blocks, this.#allocator.blockCount) * BLOCK_SIZE;
    const tokens = prompt.slice(0, length);
    const table = this.#table(salt);
    table.append(length - table.adoptPrefix(tokens));
    table.seal(tokens, length);
    table.release();
  }

  forget(): void {
    this.#allocator.forget();
  }

  #table(salt: string): BlockTable {
    return new BlockTable(this.#allocator, BLOCK_SIZE, salt);
  }
}

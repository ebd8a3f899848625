import { CollectiveMismatchError, currentSession, type ProcessGroup } from '@shardwise/core/extend';
import type { BlockCopy } from '../blocks/block-allocator.ts';
import { kvCacheDtypes } from './kept-rows.ts';
import type { PagedCacheOptions } from './paged-cache.ts';
import type { QueryGroup, StepLayout } from './step-layout.ts';

/** What a step computes. Where ranks have parts of a model, all of them compute it. */
export interface StepOrder {
  /** Blocks to copy before anything is written. */
  readonly copies: readonly BlockCopy[];
  readonly layout: StepLayout;
  /** Whether a request of the step asked for log-probabilities. */
  readonly withLogProbabilities: boolean;
}

/** There is no limit of time for the next order, because requests come when they come. */
const waiting = { timeoutMs: Number.POSITIVE_INFINITY };

/**
 * The ranks that have parts of a model. The first one decides what each step computes, and sends it to the others, which
 * decide nothing. So they cannot differ in what they compute, but only in the sizes and the dtype of their caches, which they
 * compare.
 */
export class StepRanks {
  readonly #axis: string;
  readonly #sizes: readonly number[];

  constructor(axis: string, sizes: PagedCacheOptions) {
    this.#axis = axis;
    const { blockCount, blockSize, maxSequences, maxChunkTokens, maxTokens, kvCacheDtype } = sizes;
    const dtype = kvCacheDtypes.indexOf(kvCacheDtype);
    this.#sizes = [blockCount, blockSize, maxSequences, maxChunkTokens, maxTokens, dtype];
  }

  /** Whether this rank decides. */
  get leads(): boolean {
    return this.#group.rank === 0;
  }

  get #group(): ProcessGroup {
    return currentSession().mesh.group(this.#axis);
  }

  /** Sends an order to the other ranks. Null says that none follows. */
  async send(order: StepOrder | null): Promise<void> {
    const words = Int32Array.from([...this.#sizes, ...(order === null ? [] : wordsOf(order))]);
    await this.#broadcast(Int32Array.of(words.length));
    await this.#broadcast(words);
  }

  /** Receives the next order of the first rank. Throws CollectiveMismatchError if its cache has other sizes. */
  async receive(): Promise<StepOrder | null> {
    const [length = 0] = await this.#broadcast(new Int32Array(1));
    const words = await this.#broadcast(new Int32Array(length));
    const sizes = words.subarray(0, this.#sizes.length);
    if (this.#sizes.some((size, index) => size !== sizes[index])) {
      throw otherSizes(this.#sizes, [...sizes]);
    }
    return length === sizes.length ? null : orderOf(words.subarray(sizes.length));
  }

  async #broadcast(words: Int32Array<ArrayBuffer>): Promise<Int32Array<ArrayBuffer>> {
    const bytes = new Uint8Array(words.buffer);
    await this.#group.broadcast({ bytes, dtype: 'i32' }, 0, waiting);
    return words;
  }
}

/** The order as numbers: counts, and then copies, and then each group with its sizes, its table and its tokens. */
function wordsOf({ copies, layout, withLogProbabilities }: StepOrder): number[] {
  const { groups, scored } = layout;
  return [
    Number(withLogProbabilities),
    scored.length,
    copies.length,
    groups.length,
    ...copies.flatMap(({ from, to }) => [from, to]),
    ...groups.flatMap(({ sequences, queries, blocks, table, placed }) => [
      sequences,
      queries,
      blocks,
      ...table,
      ...placed,
    ]),
  ];
}

function orderOf(words: Int32Array<ArrayBuffer>): StepOrder {
  let at = 0;
  const take = (count: number): Int32Array<ArrayBuffer> => words.slice(at, (at += count));
  const [withLogProbabilities = 0, scored = 0, copyCount = 0, groupCount = 0] = take(4);
  const pairs = take(2 * copyCount);
  const copies = Array.from({ length: copyCount }, (_, index): BlockCopy => {
    const [from = 0, to = 0] = pairs.subarray(2 * index);
    return { from, to };
  });
  const groups = Array.from({ length: groupCount }, (): QueryGroup => {
    const [sequences = 0, queries = 0, blocks = 0] = take(3);
    const table = take(sequences * blocks);
    return { sequences, queries, blocks, table, placed: take(4 * sequences * queries) };
  });
  return {
    copies,
    layout: { groups, scored: Array.from({ length: scored }, () => null) },
    withLogProbabilities: withLogProbabilities === 1,
  };
}

function otherSizes(own: readonly number[], first: readonly number[]): CollectiveMismatchError {
  return new CollectiveMismatchError(
    {
      asked: 'a step of a model that ranks share out',
      found: `a cache of other sizes than that of the first rank: ${own.join()} and ${first.join()}`,
      todo: 'Give the engines of all ranks the same options',
    },
    { own, first },
  );
}

import { CollectiveMismatchError, currentSession, type ProcessGroup } from '@shardwise/core/extend';
import type { BlockCopy } from '../blocks/block-allocator.ts';
import type { BlockSwap } from '../blocks/swap-space.ts';
import { kvCacheDtypes } from './kept-rows.ts';
import type { PagedCacheOptions } from './paged-cache.ts';
import type { QueryGroup, StepLayout } from './step-layout.ts';

/** What a step computes. */
export interface StepOrder {
  readonly kind: 'step';
  /** Blocks to copy before anything is written. */
  readonly copies: readonly BlockCopy[];
  readonly layout: StepLayout;
  /** Whether a request of the step asked for log-probabilities. */
  readonly withLogProbabilities: boolean;
}

/** Blocks to copy out of the cache and into it, before the step that follows. Each rank copies what it has of them. */
export interface SwapOrder {
  readonly kind: 'swap';
  readonly swapOuts: readonly BlockSwap[];
  readonly swapIns: readonly BlockSwap[];
}

/** What is to be done. Where ranks have parts of a model, all of them do it. */
export type RankOrder = StepOrder | SwapOrder;

/** There is no limit of time for the next order, because requests come when they come. */
const waiting = { timeoutMs: Number.POSITIVE_INFINITY };

/**
 * The ranks that have parts of a model. The first one decides what each step computes, and sends it to the others, which
 * decide nothing. So they cannot differ in what they compute, but only in the sizes and the dtype of their caches and in the
 * names of their adapters, which they compare.
 */
export class StepRanks {
  readonly #axis: string;
  readonly #sizes: readonly number[];

  /** `adapters` are the names of those that requests may name. */
  constructor(axis: string, sizes: PagedCacheOptions, adapters: readonly string[]) {
    this.#axis = axis;
    const { blockCount, blockSize, maxSequences, maxChunkTokens, maxTokens, kvCacheDtype } = sizes;
    const dtype = kvCacheDtypes.indexOf(kvCacheDtype);
    const names = [adapters.length, digestOf(JSON.stringify(adapters))];
    this.#sizes = [blockCount, blockSize, maxSequences, maxChunkTokens, maxTokens, dtype, ...names];
  }

  /** Whether this rank decides. */
  get leads(): boolean {
    return this.#group.rank === 0;
  }

  get #group(): ProcessGroup {
    return currentSession().mesh.group(this.#axis);
  }

  /** Sends an order to the other ranks. Null says that none follows. */
  async send(order: RankOrder | null): Promise<void> {
    const words = Int32Array.from([...this.#sizes, ...(order === null ? [] : wordsOf(order))]);
    await this.#broadcast(Int32Array.of(words.length));
    await this.#broadcast(words);
  }

  /** Receives the next order of the first rank. Throws CollectiveMismatchError if its cache has other sizes, or if there are other adapters. */
  async receive(): Promise<RankOrder | null> {
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

/** Kinds by their numbers. */
const kinds = ['step', 'swap'] as const;

/**
 * The order as numbers: its kind and counts; and then swaps, or copies, and each group with its sizes, its table and its
 * tokens.
 */
function wordsOf(order: RankOrder): number[] {
  const kind = kinds.indexOf(order.kind);
  if (order.kind === 'swap') {
    const { swapOuts, swapIns } = order;
    const pairs = [...swapOuts, ...swapIns].flatMap(({ block, place }) => [block, place]);
    return [kind, swapOuts.length, swapIns.length, ...pairs];
  }
  const { copies, layout, withLogProbabilities } = order;
  const { groups, scored } = layout;
  return [
    kind,
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

function orderOf(words: Int32Array<ArrayBuffer>): RankOrder {
  let at = 0;
  const take = (count: number): Int32Array<ArrayBuffer> => words.slice(at, (at += count));
  const pairs = <T>(count: number, pairOf: (one: number, other: number) => T): T[] => {
    const all = take(2 * count);
    return Array.from({ length: count }, (_, index) =>
      pairOf(all[2 * index] ?? 0, all[2 * index + 1] ?? 0),
    );
  };
  const [kind = 0] = take(1);
  if (kinds[kind] === 'swap') {
    const [outs = 0, ins = 0] = take(2);
    const swapOf = (block: number, place: number): BlockSwap => ({ block, place });
    return { kind: 'swap', swapOuts: pairs(outs, swapOf), swapIns: pairs(ins, swapOf) };
  }
  const [withLogProbabilities = 0, scored = 0, copyCount = 0, groupCount = 0] = take(4);
  const copies = pairs(copyCount, (from, to): BlockCopy => ({ from, to }));
  const groups = Array.from({ length: groupCount }, (): QueryGroup => {
    const [sequences = 0, queries = 0, blocks = 0] = take(3);
    const table = take(sequences * blocks);
    return { sequences, queries, blocks, table, placed: take(4 * sequences * queries) };
  });
  return {
    kind: 'step',
    copies,
    layout: { groups, scored: Array.from({ length: scored }, () => null) },
    withLogProbabilities: withLogProbabilities === 1,
  };
}

/** A number that other texts hardly have, to see that ranks have the same one (FNV-1a). */
function digestOf(text: string): number {
  let digest = 0x811c9dc5 | 0;
  for (const byte of new TextEncoder().encode(text)) digest = Math.imul(digest ^ byte, 0x01000193);
  return digest;
}

function otherSizes(own: readonly number[], first: readonly number[]): CollectiveMismatchError {
  return new CollectiveMismatchError(
    {
      asked: 'a step of a model that ranks share out',
      found: `a cache of other sizes than that of the first rank, or other adapters: ${own.join()} and ${first.join()}`,
      todo: 'Give the engines of all ranks the same options',
    },
    { own, first },
  );
}

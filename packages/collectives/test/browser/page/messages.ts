import type { PageRank } from '@shardwise/collectives';

/** The message from the page to a worker. */
export interface RankTask {
  readonly pageRank: PageRank;
  /** The number of elements that each rank reduces. */
  readonly elements: number;
}

/** The message from a worker to the page. */
export type RankAnswer =
  | { readonly status: 'fulfilled'; readonly reduced: number[]; readonly gathered: number[] }
  | { readonly status: 'rejected'; readonly message: string };

/** The report that the page posts to its server for each world that it made. */
export interface WorldReport {
  readonly transport: string;
  readonly reason: string;
  readonly answers: readonly RankAnswer[];
}

/** Returns a rank's values: fractions whose sum depends on the order of its terms. */
export function valuesOf(rank: number, elements: number): Float32Array {
  return Float32Array.from({ length: elements }, (_, index) => Math.sin(index + 1000 * rank));
}

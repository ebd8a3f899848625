import type { PageRank } from '@shardwise/collectives';

/** Sent by the page to a worker. */
export interface RankTask {
  readonly pageRank: PageRank;
  /** Elements that each rank reduces. */
  readonly elements: number;
}

/** Sent by a worker to the page. */
export type RankAnswer =
  | { readonly status: 'fulfilled'; readonly reduced: number[]; readonly gathered: number[] }
  | { readonly status: 'rejected'; readonly message: string };

/** Posted by the page to its server, one for each world that it made. */
export interface WorldReport {
  readonly transport: string;
  readonly reason: string;
  readonly answers: readonly RankAnswer[];
}

/** What a rank brings: fractions whose sum depends on the order of its terms. */
export function valuesOf(rank: number, elements: number): Float32Array {
  return Float32Array.from({ length: elements }, (_, index) => Math.sin(index + 1000 * rank));
}

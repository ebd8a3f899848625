import type { ErrorReport, RankFailure, RankOutcome } from '@shardwise/testing';

/** Sent to a process or a thread of a pool. */
export interface PoolTask {
  readonly moduleUrl: string;
  readonly name: string;
  readonly context: unknown;
}

export type PoolAnswer =
  | { readonly status: 'fulfilled'; readonly value: unknown }
  | { readonly status: 'rejected'; readonly report: ErrorReport };

export interface RunTaskOptions {
  /** Of the exported function. */
  readonly name: string;
  readonly world: unknown;
  readonly data?: unknown;
  readonly onFailure?: (rank: number, error: RankFailure) => void;
}

/** Has `call` run an exported function as each of `size` ranks; tells how each ended, in rank order. */
export function runTask(
  size: number,
  moduleUrl: URL,
  { name, world, data, onFailure }: RunTaskOptions,
  call: (rank: number, task: PoolTask) => Promise<RankOutcome>,
): Promise<readonly RankOutcome[]> {
  const outcomes = Array.from({ length: size }, async (_, rank) => {
    const context = { rank, size, world, data };
    const outcome = await call(rank, { moduleUrl: moduleUrl.href, name, context });
    if (outcome.status === 'rejected') onFailure?.(rank, outcome.error);
    return outcome;
  });
  return Promise.all(outcomes);
}

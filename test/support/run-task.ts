import type { RankFailure, RankOutcome, RankTask } from '@shardwise/testing/ranks';

export interface RunTaskOptions {
  /** The name of the exported function. */
  readonly name: string;
  readonly world: unknown;
  readonly data?: unknown;
  readonly onFailure?: (rank: number, error: RankFailure) => void;
}

/** Uses `call` to run an exported function as each of `size` ranks. Returns how each call ended, in rank order. */
export function runTask(
  size: number,
  moduleUrl: URL,
  { name, world, data, onFailure }: RunTaskOptions,
  call: (rank: number, task: RankTask) => Promise<RankOutcome>,
): Promise<readonly RankOutcome[]> {
  const outcomes = Array.from({ length: size }, async (_, rank) => {
    const context = { rank, size, world, data };
    const outcome = await call(rank, { moduleUrl: moduleUrl.href, name, context });
    if (outcome.status === 'rejected') onFailure?.(rank, outcome.error);
    return outcome;
  });
  return Promise.all(outcomes);
}

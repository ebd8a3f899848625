import { subscribe } from '@shardwise/core/extend';

/** The number of times that this rank ran each kind of collective, such as `{ allReduce: 2 }`. */
export type CollectiveCounts = Readonly<Record<string, number>>;

/**
 * Counts the collectives of the graph that run during `body`, by kind, like PyTorch's CommDebugMode. All-reduces that
 * are sent as one message count once. Collectives that `body` builds but does not realize do not count.
 */
export async function countCollectives(body: () => Promise<unknown>): Promise<CollectiveCounts> {
  const counts: Record<string, number> = {};
  const unsubscribe = subscribe(({ category, name }) => {
    if (category === 'collective') counts[name] = (counts[name] ?? 0) + 1;
  });
  try {
    await body();
  } finally {
    unsubscribe();
  }
  return counts;
}

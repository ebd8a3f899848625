import { subscribe } from '@shardwise/core/extend';

/** How often this rank ran each kind of collective: `{ allReduce: 2 }`. */
export type CollectiveCounts = Readonly<Record<string, number>>;

/**
 * Counts the collectives of the graph that run while `body` does, by kind, as PyTorch's
 * CommDebugMode. All-reduces that travel as one message count once. What `body` builds and does not
 * realize is not counted.
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

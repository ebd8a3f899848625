import { currentSession } from '../rank.ts';
import { subscribe } from '../timeline.ts';

/** The number of times that this rank ran each kind of collective, such as `{ allReduce: 2 }`. */
export type CollectiveCounts = Readonly<Record<string, number>>;

/**
 * Counts the collectives that the program makes in `body`, by kind, like PyTorch's CommDebugMode. All-reduces that
 * are sent as one message count once. Collectives from before run before `body`, and those of `body` run before the count
 * ends, whether it reads their results or not.
 */
export async function countCollectives(body: () => Promise<unknown>): Promise<CollectiveCounts> {
  const session = currentSession();
  await session.issueAll();
  const counts: Record<string, number> = {};
  const unsubscribe = subscribe(({ category, name }) => {
    if (category === 'collective') counts[name] = (counts[name] ?? 0) + 1;
  });
  try {
    await body();
    await session.issueAll();
  } finally {
    unsubscribe();
  }
  return counts;
}

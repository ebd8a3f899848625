import type { Lazy, OpenCursor, StreamState } from './cursor.ts';

/** The place at which reading begins. */
export interface StreamPlace {
  /** Null: the beginning of the epoch. */
  readonly place: StreamState;
  /** The number of items after it that have been handed out, on all ranks together. */
  readonly skip: number;
}

/** Whose items are read. The workers of a rank take its items in turns. */
export interface Share {
  readonly rank: number;
  readonly numReplicas: number;
  readonly worker: number;
  readonly workers: number;
  readonly dropLast: boolean;
  readonly prefetch: number;
}

/** An item of a share. */
export interface SharedItem<T> {
  readonly value: T;
  /** The place after the round of all workers of all ranks that the item belongs to. */
  readonly place: StreamState;
  /** Whether some ranks have no item in this turn, so that the epoch is over. */
  readonly isLast: boolean;
}

/** Reads the items of a share from a place to the end of the epoch. */
export async function* readShare<T>(
  open: OpenCursor<T>,
  epoch: number,
  { place, skip }: StreamPlace,
  share: Share,
): AsyncGenerator<SharedItem<T>, undefined, undefined> {
  const { rank, numReplicas, worker, workers, dropLast, prefetch } = share;
  const cursor = open(epoch, place ?? undefined);
  const ahead: {
    readonly item: Promise<T>;
    readonly place: StreamState;
    readonly isLast: boolean;
  }[] = [];
  const before = worker * numReplicas;
  let hasRounds = true;
  /** Takes an item for each worker of each rank, and begins to make the own one. Returns whether there are no more. */
  const round = async (): Promise<boolean> => {
    let own: Lazy<T> | undefined;
    let taken = 0;
    while (taken < workers * numReplicas) {
      const item = await cursor.next();
      if (item === undefined) break;
      if (taken === before + rank) own = item;
      taken += 1;
    }
    const isOver = taken < workers * numReplicas;
    const isLast = taken < before + numReplicas;
    if (own === undefined || (isLast && dropLast)) return isOver;
    const item = own();
    // The failure of an item comes when its turn does. Until then, it is not an unhandled rejection.
    item.catch(() => {});
    ahead.push({ item, place: cursor.state(), isLast });
    return isOver;
  };
  try {
    for (let i = 0; i < skip; i++) if ((await cursor.next()) === undefined) return undefined;
    for (;;) {
      while (hasRounds && ahead.length <= prefetch) hasRounds = !(await round());
      const next = ahead.shift();
      if (next === undefined) return undefined;
      yield { value: await next.item, place: next.place, isLast: next.isLast };
    }
  } finally {
    await cursor.close();
    await Promise.allSettled(ahead.map(({ item }) => item));
  }
}

import type { GroupCall, Transfer } from './calls.ts';

/** A group, as its observers know it. */
export interface ObservedGroup {
  /** The same name on all ranks of the group. */
  readonly name: string;
  /** This rank's number in the group. */
  readonly rank: number;
  /** For each rank of the group, its rank in the world. */
  readonly worldRanks: readonly number[];
}

/** What is told of the calls of one rank on its groups. Without an observer, a call only looks whether there is one. */
export interface CallObserver {
  /** A group was split from one that is observed. */
  group(group: ObservedGroup): void;
  /** A collective is about to be issued. */
  collective(group: ObservedGroup, call: GroupCall, timeoutMs: number): CallFollower;
  /** A message is about to be issued. */
  transfer(group: ObservedGroup, transfer: Transfer, timeoutMs: number): CallFollower;
}

/** Follows one call to its end. */
export interface CallFollower {
  /** Called when all ranks have arrived and the data begins to move. It is not called for messages. */
  readonly started: () => void;
  /** Follows how the call ends, before its caller learns of it. The promise never rejects. */
  follow(done: Promise<void>): Promise<void>;
}

/** Tells several observers what a group tells one. */
class Observers implements CallObserver {
  readonly all: readonly CallObserver[];

  constructor(all: readonly CallObserver[]) {
    this.all = all;
  }

  group(group: ObservedGroup): void {
    for (const each of this.all) each.group(group);
  }

  collective(group: ObservedGroup, call: GroupCall, timeoutMs: number): CallFollower {
    return together(this.all.map((each) => each.collective(group, call, timeoutMs)));
  }

  transfer(group: ObservedGroup, transfer: Transfer, timeoutMs: number): CallFollower {
    return together(this.all.map((each) => each.transfer(group, transfer, timeoutMs)));
  }
}

function together(followers: readonly CallFollower[]): CallFollower {
  return {
    started: () => {
      for (const each of followers) each.started();
    },
    follow: async (done) => {
      await Promise.all(followers.map((each) => each.follow(done)));
    },
  };
}

/**
 * Tells `observer` of calls, beside other observers, until the returned function is called. `place` is where a group
 * keeps its observer.
 */
export function addObserver(
  place: { observer: CallObserver | null },
  observer: CallObserver,
): () => void {
  place.observer = joined([...observersIn(place.observer), observer]);
  return () => {
    place.observer = joined(observersIn(place.observer).filter((each) => each !== observer));
  };
}

function observersIn(observer: CallObserver | null): readonly CallObserver[] {
  if (observer === null) return [];
  return observer instanceof Observers ? observer.all : [observer];
}

function joined(all: readonly CallObserver[]): CallObserver | null {
  return all.length > 1 ? new Observers(all) : (all[0] ?? null);
}

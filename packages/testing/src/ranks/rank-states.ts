import { AsyncLocalStorage } from 'node:async_hooks';
import { newRankState, type RankState, rankState, replaceRankState } from '@shardwise/core/extend';

/** The state of the rank whose code is running, if it is one of several in this thread. */
const current = new AsyncLocalStorage<RankState>();

/** The state that the thread had before, and the number of bodies that have states of their own. */
let outside: RankState = rankState;
let bodies = 0;

/** Runs `body` as a rank of its own, with a new state. The state follows the body over every `await`. */
export async function inOwnRankState<T>(body: () => Promise<T>): Promise<T> {
  if (bodies === 0) {
    outside = rankState;
    replaceRankState(ofRunningCode(outside));
  }
  bodies++;
  try {
    return await current.run(newRankState(), body);
  } finally {
    bodies--;
    if (bodies === 0) replaceRankState(outside);
  }
}

/** A state that is always that of the rank whose code is running. Code that is no rank's has the state `others`. */
function ofRunningCode(others: RankState): RankState {
  const state = (): RankState => current.getStore() ?? others;
  return new Proxy(others, {
    get: (_, name) => Reflect.get(state(), name),
    set: (_, name, value) => Reflect.set(state(), name, value),
    has: (_, name) => Reflect.has(state(), name),
    deleteProperty: (_, name) => Reflect.deleteProperty(state(), name),
  });
}

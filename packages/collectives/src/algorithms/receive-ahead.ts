import type { Reducer } from '../reduce/reducer.ts';
import type { Communicator } from './communicator.ts';

/** How many turns are received ahead. They are few, so that their fragments stay in the caches. */
const AHEAD = 4;

export interface Expected {
  readonly from: number;
  readonly byteLength: number;
}

/**
 * Receives the messages of each turn into memory that the reducer lends, a few turns ahead. The memory of a
 * turn goes back to the reducer when the next turn is asked for.
 */
export async function* receiveAhead(
  communicator: Communicator,
  turns: readonly (readonly Expected[])[],
  reducer: Reducer,
): AsyncGenerator<readonly Uint8Array[], void> {
  const begin = (expected: readonly Expected[]): Arriving => {
    const buffers = expected.map(({ byteLength }) => reducer.borrow(byteLength));
    const done = Promise.all(expected.map(({ from }, i) => communicator.recv(from, buffers[i]!)));
    // If an earlier turn fails, nobody awaits this one.
    done.catch(() => {});
    return { buffers, done };
  };
  const arriving = turns.slice(0, AHEAD).map(begin);
  for (let turn = AHEAD; ; turn++) {
    const current = arriving.shift();
    if (current === undefined) return;
    await current.done;
    yield current.buffers;
    for (const buffer of current.buffers) reducer.giveBack(buffer);
    const next = turns[turn];
    if (next !== undefined) arriving.push(begin(next));
  }
}

interface Arriving {
  readonly buffers: readonly Uint8Array[];
  readonly done: Promise<unknown>;
}

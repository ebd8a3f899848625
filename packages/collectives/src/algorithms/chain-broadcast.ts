import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { PIPELINE_BYTES } from './fragments.ts';
import { passOn } from './pass-on.ts';

/**
 * Each rank passes every fragment on to the next rank as soon as it comes. Each rank sends the values once,
 * while the root of a tree sends them log2(P) times. Specification: broadcastSpecification.
 *
 *   rank 0  a b c        a b c        a b c        a b c        a b c
 *   rank 1  . . .   =>   a . .   =>   a b .   =>   a b c   =>   a b c
 *   rank 2  . . .        . . .        a . .        a b .        a b c
 */
export function chainBroadcast(
  communicator: Communicator,
  buffer: Uint8Array,
  root: number,
): Promise<void> {
  const { rank, size } = communicator;
  const next = (rank + 1) % size;
  const place = {
    parent: rank === root ? undefined : (rank - 1 + size) % size,
    children: next === root ? [] : [next],
  };
  return passOn(communicator, buffer, place, PIPELINE_BYTES);
}

export const chainBroadcastCost: Cost = {
  rounds: (size) => size - 1,
  bytesPerRank: (size, bytes) => (size > 1 ? bytes : 0),
};

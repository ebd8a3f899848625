import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';

/**
 * In round k each rank sends all values that it has to the rank 2^k before it, until everyone has all of them:
 * log2(P) rounds, for short values (Bruck, Ho, Kipnis, Upfal and Weathersby, 1997). A rank collects the values
 * in an order that begins with its own, and at the end rotates them into rank order. Specification:
 * allGatherSpecification.
 *
 *   rank 0  a . .        a b .        a b c        a b c
 *   rank 1  b . .   =>   b c .   =>   b c a   =>   a b c
 *   rank 2  c . .        c a .        c a b        a b c
 */
export async function bruckAllGather(
  communicator: Communicator,
  input: Uint8Array,
  output: Uint8Array,
): Promise<void> {
  const { rank, size } = communicator;
  const partBytes = input.byteLength;
  const turned = new Uint8Array(size * partBytes);
  turned.set(input);
  for (let held = 1; held < size; held *= 2) {
    const count = Math.min(held, size - held);
    await Promise.all([
      communicator.send((rank - held + size) % size, turned.subarray(0, count * partBytes)),
      communicator.recv(
        (rank + held) % size,
        turned.subarray(held * partBytes, (held + count) * partBytes),
      ),
    ]);
  }
  const split = (size - rank) * partBytes;
  output.set(turned.subarray(0, split), rank * partBytes);
  output.set(turned.subarray(split), 0);
}

export const bruckAllGatherCost: Cost = {
  rounds: (size) => Math.ceil(Math.log2(size)),
  bytesPerRank: (size, bytes) => (size - 1) * bytes,
};

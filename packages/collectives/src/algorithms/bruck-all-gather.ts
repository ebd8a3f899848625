import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';

/**
 * In step k everyone gets from the rank 2^k further all that this one has, as often as it takes:
 * log2(P) messages for short values (Bruck, Ho, Kipnis, Upfal and Weathersby, 1997). Each rank
 * lays them out from its own on, and turns them round at the end. Specification:
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

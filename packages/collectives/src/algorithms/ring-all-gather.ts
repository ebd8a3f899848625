import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';

/**
 * In each round, every rank sends to the next rank what it received from the rank before. Specification:
 * allGatherSpecification.
 *
 *   rank 0  a . .          rank 0  a . c          rank 0  a b c
 *   rank 1  . b .    =>    rank 1  a b .    =>    rank 1  a b c
 *   rank 2  . . c          rank 2  . b c          rank 2  a b c
 */
export async function ringAllGather(
  communicator: Communicator,
  input: Uint8Array,
  output: Uint8Array,
): Promise<void> {
  const { rank, size } = communicator;
  const partBytes = input.byteLength;
  const partOf = (owner: number): Uint8Array =>
    output.subarray(owner * partBytes, (owner + 1) * partBytes);
  const next = (rank + 1) % size;
  const previous = (rank + size - 1) % size;
  partOf(rank).set(input);
  for (let round = 0; round < size - 1; round++) {
    const passed = (rank + size - round) % size;
    const taken = (previous + size - round) % size;
    await Promise.all([
      communicator.send(next, partOf(passed)),
      communicator.recv(previous, partOf(taken)),
    ]);
  }
}

export const ringAllGatherCost: Cost = {
  rounds: (size) => size - 1,
  bytesPerRank: (size, bytes) => (size - 1) * bytes,
};

import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { partsOf } from './parts-of.ts';

/** The lengths in bytes of the parts that go to each rank, and of the parts that come from each rank. */
export interface ByteSplits {
  readonly input: readonly number[];
  readonly output: readonly number[];
}

/**
 * In round k each rank sends to the rank k after it and receives from the rank k before it. Specification:
 * allToAllSpecification.
 *
 *   rank 0  a0 a1 a2          rank 0  a0 b0 c0
 *   rank 1  b0 b1 b2    =>    rank 1  a1 b1 c1
 *   rank 2  c0 c1 c2          rank 2  a2 b2 c2
 */
export async function pairwiseAllToAll(
  communicator: Communicator,
  input: Uint8Array,
  output: Uint8Array,
  splits: ByteSplits,
): Promise<void> {
  const { rank, size } = communicator;
  const outgoing = partsOf(input, splits.input);
  const incoming = partsOf(output, splits.output);
  incoming[rank]!.set(outgoing[rank]!);
  for (let round = 1; round < size; round++) {
    const to = (rank + round) % size;
    const from = (rank - round + size) % size;
    await Promise.all([
      communicator.send(to, outgoing[to]!),
      communicator.recv(from, incoming[from]!),
    ]);
  }
}

/** The cost if all parts have the same length. `bytes` is the length of the whole input. */
export const pairwiseAllToAllCost: Cost = {
  rounds: (size) => size - 1,
  bytesPerRank: (size, bytes) => ((size - 1) * bytes) / size,
};

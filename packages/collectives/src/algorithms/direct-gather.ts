import { peersOf, type Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';

/**
 * Everyone sends its values to root. The other ranks' `output` is not used. Specification: gatherSpecification.
 *
 *   rank 0  a          rank 0  a b c
 *   rank 1  b    =>    rank 1  .
 *   rank 2  c          rank 2  .
 */
export async function directGather(
  communicator: Communicator,
  input: Uint8Array,
  output: Uint8Array,
  root: number,
): Promise<void> {
  if (communicator.rank !== root) {
    await communicator.send(root, input);
    return;
  }
  const partBytes = input.byteLength;
  const partOf = (rank: number): Uint8Array =>
    output.subarray(rank * partBytes, (rank + 1) * partBytes);
  partOf(root).set(input);
  await Promise.all(peersOf(communicator).map((peer) => communicator.recv(peer, partOf(peer))));
}

export const directGatherCost: Cost = {
  rounds: (size) => (size > 1 ? 1 : 0),
  bytesPerRank: (size, bytes) => (size > 1 ? bytes : 0),
};

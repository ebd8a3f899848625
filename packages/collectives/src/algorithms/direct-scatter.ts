import { peersOf, type Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';

/**
 * Root sends each rank its part. The other ranks' `input` is not used. Specification: scatterSpecification.
 *
 *   rank 0  a b c          rank 0  a
 *   rank 1  .        =>    rank 1  b
 *   rank 2  .              rank 2  c
 */
export async function directScatter(
  communicator: Communicator,
  input: Uint8Array,
  output: Uint8Array,
  root: number,
): Promise<void> {
  if (communicator.rank !== root) {
    await communicator.recv(root, output);
    return;
  }
  const partBytes = output.byteLength;
  const partOf = (rank: number): Uint8Array =>
    input.subarray(rank * partBytes, (rank + 1) * partBytes);
  output.set(partOf(root));
  await Promise.all(peersOf(communicator).map((peer) => communicator.send(peer, partOf(peer))));
}

export const directScatterCost: Cost = {
  rounds: (size) => (size > 1 ? 1 : 0),
  bytesPerRank: (size, bytes) => (size - 1) * bytes,
};

import { peersOf } from './peers.ts';
import type { Cost, PerRank, Wire } from './wire.ts';

export function scatterSpecification(inputs: PerRank, root: number): PerRank {
  const part = inputs[root]!.length / inputs.length;
  return inputs.map((_, rank) => inputs[root]!.slice(rank * part, (rank + 1) * part));
}

/**
 * Root sends each rank its part. `input` counts on root only.
 *
 *   rank 0  a b c          rank 0  a
 *   rank 1  .        =>    rank 1  b
 *   rank 2  .              rank 2  c
 */
export async function directScatter(
  wire: Wire,
  input: Uint8Array,
  output: Uint8Array,
  root: number,
): Promise<void> {
  if (wire.rank !== root) {
    await wire.recv(root, output);
    return;
  }
  const partBytes = output.byteLength;
  const partOf = (rank: number): Uint8Array =>
    input.subarray(rank * partBytes, (rank + 1) * partBytes);
  output.set(partOf(root));
  await Promise.all(peersOf(wire).map((peer) => wire.send(peer, partOf(peer))));
}

export const directScatterCost: Cost = {
  steps: (size) => (size > 1 ? 1 : 0),
  bytesPerRank: (size, bytes) => (size - 1) * bytes,
};

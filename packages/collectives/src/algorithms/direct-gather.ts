import { peersOf } from './peers.ts';
import type { Cost, PerRank, Wire } from './wire.ts';

export function gatherSpecification(inputs: PerRank, root: number): PerRank {
  const all = inputs.flat();
  return inputs.map((_, rank) => (rank === root ? all : []));
}

/**
 * Everyone sends to root. `output` counts on root only.
 *
 *   rank 0  a          rank 0  a b c
 *   rank 1  b    =>    rank 1  .
 *   rank 2  c          rank 2  .
 */
export async function directGather(
  wire: Wire,
  input: Uint8Array,
  output: Uint8Array,
  root: number,
): Promise<void> {
  if (wire.rank !== root) {
    await wire.send(root, input);
    return;
  }
  const partBytes = input.byteLength;
  const partOf = (rank: number): Uint8Array =>
    output.subarray(rank * partBytes, (rank + 1) * partBytes);
  partOf(root).set(input);
  await Promise.all(peersOf(wire).map((peer) => wire.recv(peer, partOf(peer))));
}

export const directGatherCost: Cost = {
  steps: (size) => (size > 1 ? 1 : 0),
  bytesPerRank: (size, bytes) => (size > 1 ? bytes : 0),
};

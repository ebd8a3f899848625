import type { Cost, PerRank, Wire } from './wire.ts';

export function allGatherSpecification(inputs: PerRank): PerRank {
  const all = inputs.flat();
  return inputs.map(() => all);
}

/**
 * Everyone passes to the next rank what it last got from the one before.
 *
 *   rank 0  a . .          rank 0  a . c          rank 0  a b c
 *   rank 1  . b .    =>    rank 1  a b .    =>    rank 1  a b c
 *   rank 2  . . c          rank 2  . b c          rank 2  a b c
 */
export async function ringAllGather(
  wire: Wire,
  input: Uint8Array,
  output: Uint8Array,
): Promise<void> {
  const { rank, size } = wire;
  const partBytes = input.byteLength;
  const partOf = (owner: number): Uint8Array =>
    output.subarray(owner * partBytes, (owner + 1) * partBytes);
  const next = (rank + 1) % size;
  const previous = (rank + size - 1) % size;
  partOf(rank).set(input);
  for (let step = 0; step < size - 1; step++) {
    const passed = (rank + size - step) % size;
    const taken = (previous + size - step) % size;
    await Promise.all([wire.send(next, partOf(passed)), wire.recv(previous, partOf(taken))]);
  }
}

export const ringAllGatherCost: Cost = {
  steps: (size) => size - 1,
  bytesPerRank: (size, bytes) => (size - 1) * bytes,
};

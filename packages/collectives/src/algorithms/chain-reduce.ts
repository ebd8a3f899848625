import { hierarchicalReduce, hierarchicalReduceCost } from './hierarchical-reduce.ts';
import { partOfWire } from './part-of-wire.ts';
import type { Reduction } from './reduction.ts';
import type { Cost, Wire } from './wire.ts';

/**
 * Each rank adds its values to what comes from the rank before and passes that on, piece by piece;
 * the last one sends the result to root. Root receives the values once, not once from each rank.
 * Specification: reduceSpecification.
 *
 *   rank 0  a       a                          Σ
 *   rank 1  b    => └─► a+b               =>   b
 *   rank 2  c           └─► a+b+c = Σ          c
 */
export function chainReduce(
  wire: Wire,
  buffer: Uint8Array,
  root: number,
  reduction: Reduction,
): Promise<void> {
  const ranks = Array.from({ length: wire.size }, (_, rank) => rank);
  // As if each rank were a host.
  const chain = partOfWire(
    wire,
    ranks,
    ranks.map((rank) => [rank]),
  );
  return hierarchicalReduce(chain, buffer, root, reduction);
}

export const chainReduceCost: Cost = {
  steps: (size) => (size > 1 ? hierarchicalReduceCost.steps(size, size) : 0),
  bytesPerRank: (size, bytes) => hierarchicalReduceCost.bytesPerRank(size, bytes, size),
};

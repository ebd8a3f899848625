import { subCommunicator, type Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { hierarchicalReduce, hierarchicalReduceCost } from './hierarchical-reduce.ts';
import type { Reduction } from './partial-sums.ts';

/**
 * Each rank adds its values to what comes from the rank before, and passes the sum on, fragment by fragment.
 * The last rank sends the result to root. Root receives the values once, while it receives them from every rank
 * in directReduce. Specification: reduceSpecification.
 *
 *   rank 0  a       a                          Σ
 *   rank 1  b    => └─► a+b               =>   b
 *   rank 2  c           └─► a+b+c = Σ          c
 */
export function chainReduce(
  communicator: Communicator,
  buffer: Uint8Array,
  root: number,
  reduction: Reduction,
): Promise<void> {
  const ranks = Array.from({ length: communicator.size }, (_, rank) => rank);
  // This is the algorithm for several hosts, with each rank taken for a host.
  const chain = subCommunicator(
    communicator,
    ranks,
    ranks.map((rank) => [rank]),
  );
  return hierarchicalReduce(chain, buffer, root, reduction);
}

export const chainReduceCost: Cost = {
  rounds: (size) => (size > 1 ? hierarchicalReduceCost.rounds(size, size) : 0),
  bytesPerRank: (size, bytes) => hierarchicalReduceCost.bytesPerRank(size, bytes, size),
};

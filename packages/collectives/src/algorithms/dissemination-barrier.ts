import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';

/**
 * In round k each rank tells the rank 2^k after it that it is there, together with all ranks of which it has
 * heard (Hensgen, Finkel and Manber, 1988). The picture shows of which ranks each has heard:
 *
 *   rank 0  0          rank 0  0,2          rank 0  0,1,2
 *   rank 1  1    =>    rank 1  0,1    =>    rank 1  0,1,2
 *   rank 2  2          rank 2  1,2          rank 2  0,1,2
 */
export async function disseminationBarrier(communicator: Communicator): Promise<void> {
  const { rank, size } = communicator;
  for (let distance = 1; distance < size; distance *= 2) {
    await Promise.all([
      communicator.send((rank + distance) % size, new Uint8Array(0)),
      communicator.recv((rank - distance + size) % size, new Uint8Array(0)),
    ]);
  }
}

export const disseminationBarrierCost: Cost = {
  rounds: (size) => Math.ceil(Math.log2(size)),
  bytesPerRank: () => 0,
};

import { subCommunicator, type Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { disseminationBarrier, disseminationBarrierCost } from './dissemination-barrier.ts';

/**
 * The first rank of each host waits for the other ranks of the host, then for the first ranks of the other
 * hosts, and then lets the ranks of its host go on. The picture shows of which ranks each has heard:
 *
 *   rank 0  0        0,1          0,1,2,3        0,1,2,3
 *   rank 1  1        1            1              0,1,2,3
 *   ─ host ──   =>           =>             =>
 *   rank 2  2        2,3          0,1,2,3        0,1,2,3
 *   rank 3  3        3            3              0,1,2,3
 */
export async function hierarchicalBarrier(communicator: Communicator): Promise<void> {
  const { hosts, rank } = communicator;
  const nothing = new Uint8Array(0);
  const [leader = rank, ...others] = hosts.find((ranks) => ranks.includes(rank)) ?? [];
  if (rank !== leader) {
    await Promise.all([communicator.send(leader, nothing), communicator.recv(leader, nothing)]);
    return;
  }
  await Promise.all(others.map((other) => communicator.recv(other, nothing)));
  const leaders = hosts.map(([first = rank]) => first);
  await disseminationBarrier(subCommunicator(communicator, leaders));
  await Promise.all(others.map((other) => communicator.send(other, nothing)));
}

export const hierarchicalBarrierCost: Cost = {
  rounds: (size, hosts) => disseminationBarrierCost.rounds(hosts, hosts) + (size > hosts ? 2 : 0),
  bytesPerRank: () => 0,
  bytesPerHost: () => 0,
};

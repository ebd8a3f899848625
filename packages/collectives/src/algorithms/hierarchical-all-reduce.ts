import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { sharedFragments } from './host-fragments.ts';
import { reduceThroughHosts, type HostFragment } from './reduce-through-hosts.ts';
import type { Reduction } from './partial-sums.ts';

/**
 * The ranks of each host share out the slices of the values. Each slice goes through the hosts in order, each
 * of which adds the values of its ranks. Its result goes back the same way. Values are added in rank order, and
 * no more bytes pass between hosts than in a ring of hosts. Specification: allReduceSpecification.
 *
 *   rank 0  a0 a1   a0+b0  .        Σ0 .        Σ0 Σ1
 *   rank 1  b0 b1   .  a1+b1        .  Σ1       Σ0 Σ1
 *   ───── host ──────  │ ─ ▼ ────── ▲ ───    =>
 *   rank 2  c0 c1   …+c0+d0 .       Σ0 .        Σ0 Σ1
 *   rank 3  d0 d1   .  …+c1+d1      .  Σ1       Σ0 Σ1
 */
export async function hierarchicalAllReduce(
  communicator: Communicator,
  buffer: Uint8Array,
  reduction: Reduction,
): Promise<void> {
  const { hosts, rank } = communicator;
  const host = hosts.findIndex((ranks) => ranks.includes(rank));
  const neighbours = (hosts[host] ?? []).filter((resident) => resident !== rank);
  const fragments = sharedFragments(buffer, reduction.dtype, hosts);
  const moving: Promise<void>[] = [];
  /** Fragments that this rank adds, and whose results come back from the next host. */
  const returning: { readonly fragment: HostFragment; readonly arrived: Promise<void> }[] = [];
  for (const fragment of fragments) {
    const { bytes, owners } = fragment;
    const owner = owners[host] ?? rank;
    const next = owners[host + 1];
    if (owner !== rank) moving.push(communicator.recv(owner, bytes, 1));
    else if (next !== undefined)
      returning.push({ fragment, arrived: communicator.recv(next, bytes, 1) });
  }
  const pass = ({ bytes, owners }: HostFragment): void => {
    const before = owners[host - 1];
    const receivers = before === undefined ? neighbours : [before, ...neighbours];
    moving.push(...receivers.map((to) => communicator.send(to, bytes, 1)));
  };
  const passReturning = async (): Promise<void> => {
    for (const { fragment, arrived } of returning) {
      await arrived;
      pass(fragment);
    }
  };
  await Promise.all([
    passReturning(),
    reduceThroughHosts(communicator, fragments, reduction, {
      destination: ({ bytes }) => bytes,
      done: pass,
    }),
  ]);
  await Promise.all(moving);
}

export const hierarchicalAllReduceCost: Cost = {
  rounds: (size, hosts) => 2 * (hosts - 1) + (size > hosts ? 2 : 0),
  bytesPerRank: (size, bytes, hosts) => {
    const ranks = size / hosts;
    return (2 * (ranks - 1) * bytes) / ranks + (passesOf(hosts) * bytes) / ranks;
  },
  bytesPerHost: (_, bytes, hosts) => passesOf(hosts) * bytes,
};

/** How often the values leave a host. Hosts in the middle of the chain send both sums and results. */
function passesOf(hosts: number): number {
  return Math.min(hosts - 1, 2);
}

import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { sharedFragments } from './host-fragments.ts';
import { reduceThroughHosts, type HostFragment } from './reduce-through-hosts.ts';
import type { Reduction } from './partial-sums.ts';

/**
 * Reduces as hierarchicalAllReduce does, but the last host sends the results to root alone. Specification:
 * reduceSpecification.
 *
 *   rank 0  a0 a1    a0+b0  .        .  .        Σ0 Σ1
 *   rank 1  b0 b1    .  a1+b1        .  .        b0 b1
 *   ───── host ───────────────   =>        =>
 *   rank 2  c0 c1                    Σ0 .        c0 c1
 *   rank 3  d0 d1                    .  Σ1       d0 d1
 */
export async function hierarchicalReduce(
  communicator: Communicator,
  buffer: Uint8Array,
  root: number,
  reduction: Reduction,
): Promise<void> {
  const { hosts, rank } = communicator;
  const { reducer } = reduction;
  const fragments = sharedFragments(buffer, reduction.dtype, hosts);
  const ownerOf = ({ owners }: HostFragment): number => owners.at(-1) ?? root;
  const received = fragments
    .filter((fragment) => rank === root && ownerOf(fragment) !== root)
    .map((fragment) => communicator.recv(ownerOf(fragment), fragment.bytes, 1));
  const sent: Promise<void>[] = [];
  await reduceThroughHosts(communicator, fragments, reduction, {
    destination: ({ bytes }) => (rank === root ? bytes : reducer.borrow(bytes.byteLength)),
    done: (_, result) => {
      if (rank !== root)
        sent.push(communicator.send(root, result, 1).then(() => reducer.giveBack(result)));
    },
  });
  await Promise.all([...received, ...sent]);
}

/** The cost if root is on the first host, which is the farthest from the last. */
export const hierarchicalReduceCost: Cost = {
  rounds: (size, hosts) => (size > hosts ? 1 : 0) + hosts,
  bytesPerRank: (size, bytes, hosts) => {
    const ranks = size / hosts;
    return ((ranks - 1) * bytes) / ranks + (size > 1 ? bytes / ranks : 0);
  },
  bytesPerHost: (_, bytes, hosts) => (hosts > 1 ? bytes : 0),
};

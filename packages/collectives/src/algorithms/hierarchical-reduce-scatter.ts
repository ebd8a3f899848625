import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { PIPELINE_BYTES, fragmentsOf } from './fragments.ts';
import { rankFragments } from './host-fragments.ts';
import { reduceThroughHosts } from './reduce-through-hosts.ts';
import type { Reduction } from './partial-sums.ts';

/**
 * Each part goes through the hosts in order, each of which adds the values of its ranks. The last host sends it
 * to the rank whose part it is. Specification: reduceScatterSpecification.
 *
 *   rank 0  a0 a1 a2 a3    a0+b0  .  a2+b2  .       .  .  .  .         Σ0
 *   rank 1  b0 b1 b2 b3    .  a1+b1  .  a3+b3       .  .  .  .         Σ1
 *   ───── host ──────────────────────────────   =>             =>
 *   rank 2  c0 c1 c2 c3                             Σ0 .  Σ2 .         Σ2
 *   rank 3  d0 d1 d2 d3                             .  Σ1 .  Σ3        Σ3
 */
export async function hierarchicalReduceScatter(
  communicator: Communicator,
  input: Uint8Array,
  output: Uint8Array,
  reduction: Reduction,
): Promise<void> {
  const { hosts, rank, size } = communicator;
  const { reducer } = reduction;
  const partBytes = output.byteLength;
  const parts = Array.from({ length: size }, (_, part) =>
    input.subarray(part * partBytes, (part + 1) * partBytes),
  );
  const fragments = rankFragments(parts, hosts);
  const results = fragmentsOf(output, PIPELINE_BYTES);
  const lastOwner = fragments.find((fragment) => fragment.rank === rank)?.owners.at(-1);
  const received =
    lastOwner === undefined || lastOwner === rank
      ? []
      : results.map((bytes) => communicator.recv(lastOwner, bytes, 1));
  const sent: Promise<void>[] = [];
  await reduceThroughHosts(communicator, fragments, reduction, {
    destination: ({ rank: to, index, bytes }) =>
      (to === rank ? results[index] : undefined) ?? reducer.borrow(bytes.byteLength),
    done: ({ rank: to }, result) => {
      if (to !== rank)
        sent.push(communicator.send(to, result, 1).then(() => reducer.giveBack(result)));
    },
  });
  await Promise.all([...received, ...sent]);
}

export const hierarchicalReduceScatterCost: Cost = {
  rounds: (size, hosts) => (size > hosts ? 1 : 0) + (hosts > 1 ? hosts : 0),
  bytesPerRank: (size, bytes, hosts) =>
    (size / hosts - 1) * hosts * bytes + (hosts > 1 ? hosts * bytes : 0),
  bytesPerHost: (size, bytes, hosts) => (hosts > 1 ? size * bytes : 0),
};

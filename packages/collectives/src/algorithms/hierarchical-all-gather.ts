import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { rankFragments, type RankFragment } from './host-fragments.ts';

/**
 * Each rank's values go round the hosts. On each host, the rank that receives them gives them to the other
 * ranks. Specification: allGatherSpecification.
 *
 *   rank 0  a . . .        a b c .        a b c d
 *   rank 1  . b . .        a b . d        a b c d
 *   ───── host ──────  =>             =>
 *   rank 2  . . c .        a . c d        a b c d
 *   rank 3  . . . d        . b c d        a b c d
 */
export async function hierarchicalAllGather(
  communicator: Communicator,
  input: Uint8Array,
  output: Uint8Array,
): Promise<void> {
  const { hosts, rank, size } = communicator;
  const partBytes = input.byteLength;
  const parts = Array.from({ length: size }, (_, part) =>
    output.subarray(part * partBytes, (part + 1) * partBytes),
  );
  parts[rank]!.set(input);
  const hostOf = (r: number): number => hosts.findIndex((ranks) => ranks.includes(r));
  const host = hostOf(rank);
  const neighbours = (hosts[host] ?? []).filter((resident) => resident !== rank);
  const fragments: readonly Gathered[] = rankFragments(parts, hosts)
    .map((fragment) => ({
      ...fragment,
      distance: (host - hostOf(fragment.rank) + hosts.length) % hosts.length,
    }))
    .sort((a, b) => a.distance - b.distance);
  const hostAt = (offset: number): number => (host + offset + hosts.length) % hosts.length;
  const moving: Promise<void>[] = [];
  /** What this rank gives to the others of its host, and to the next host if that one has not had it yet. */
  const passing: { readonly fragment: Gathered; readonly arrived: Promise<void> | undefined }[] =
    [];
  for (const fragment of fragments) {
    const { owners, bytes } = fragment;
    const owner = owners[host] ?? rank;
    if (owner !== rank) moving.push(communicator.recv(owner, bytes));
    else if (fragment.rank === rank) passing.push({ fragment, arrived: undefined });
    else passing.push({ fragment, arrived: communicator.recv(owners[hostAt(-1)] ?? rank, bytes) });
  }
  for (const { fragment, arrived } of passing) {
    await arrived;
    const { owners, bytes, distance } = fragment;
    const next = distance + 1 < hosts.length ? [owners[hostAt(1)] ?? rank] : [];
    moving.push(...[...next, ...neighbours].map((to) => communicator.send(to, bytes)));
  }
  await Promise.all(moving);
}

/** A fragment, and how many hosts it passes on its way to this one: fragments arrive in that order. */
interface Gathered extends RankFragment {
  readonly distance: number;
}

export const hierarchicalAllGatherCost: Cost = {
  rounds: (size, hosts) => hosts - 1 + (size > hosts ? 1 : 0),
  bytesPerRank: (size, bytes, hosts) => (hosts - 1 + (size / hosts - 1) * hosts) * bytes,
  bytesPerHost: (size, bytes, hosts) => (hosts - 1) * (size / hosts) * bytes,
};

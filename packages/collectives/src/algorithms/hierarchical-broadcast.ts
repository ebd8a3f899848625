import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { PIPELINE_BYTES } from './fragments.ts';
import { binomialPlace, passOn } from './pass-on.ts';

/**
 * The values go over a tree of one rank of each host, and from each of these over a tree of its host's ranks.
 * Specification: broadcastSpecification.
 *
 *   rank 0  a        a        a
 *   rank 1  .        .        a
 *   ─ host ──   =>       =>
 *   rank 2  .        a        a
 *   rank 3  .        .        a
 */
export function hierarchicalBroadcast(
  communicator: Communicator,
  buffer: Uint8Array,
  root: number,
): Promise<void> {
  const { hosts, rank } = communicator;
  const rootHost = hosts.findIndex((ranks) => ranks.includes(root));
  // The host of root comes first, and each host's list begins with its leader.
  const ordered = [...hosts.slice(rootHost), ...hosts.slice(0, rootHost)].map((ranks) =>
    ranks.includes(root) ? [root, ...ranks.filter((other) => other !== root)] : ranks,
  );
  const hostPlace = ordered.findIndex((ranks) => ranks.includes(rank));
  const residents = ordered[hostPlace] ?? [];
  const place = residents.indexOf(rank);
  const inside = binomialPlace(place, residents.length);
  const among = binomialPlace(hostPlace, ordered.length);
  const leaderOf = (host: number): number => ordered[host]?.[0] ?? root;
  const leaderParent = among.parent === undefined ? undefined : leaderOf(among.parent);
  const neighbours = inside.children.map((child) => residents[child] ?? root);
  return passOn(
    communicator,
    buffer,
    {
      parent: inside.parent === undefined ? leaderParent : residents[inside.parent],
      children: place === 0 ? [...among.children.map(leaderOf), ...neighbours] : neighbours,
    },
    PIPELINE_BYTES,
  );
}

export const hierarchicalBroadcastCost: Cost = {
  rounds: (size, hosts) => Math.floor(Math.log2(hosts)) + Math.floor(Math.log2(size / hosts)),
  bytesPerRank: (size, bytes, hosts) =>
    (Math.ceil(Math.log2(hosts)) + Math.ceil(Math.log2(size / hosts))) * bytes,
  bytesPerHost: (_, bytes, hosts) => Math.ceil(Math.log2(hosts)) * bytes,
};

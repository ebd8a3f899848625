import { rankPieces, type RankPiece } from './host-pieces.ts';
import type { Cost, Wire } from './wire.ts';

/**
 * Each rank's values go round the hosts, and on each host the rank that received them gives them to
 * the others. Specification: allGatherSpecification.
 *
 *   rank 0  a . . .        a b c .        a b c d
 *   rank 1  . b . .        a b . d        a b c d
 *   ───── host ──────  =>             =>
 *   rank 2  . . c .        a . c d        a b c d
 *   rank 3  . . . d        . b c d        a b c d
 */
export async function hierarchicalAllGather(
  wire: Wire,
  input: Uint8Array,
  output: Uint8Array,
): Promise<void> {
  const { hosts, rank, size } = wire;
  const partBytes = input.byteLength;
  const parts = Array.from({ length: size }, (_, part) =>
    output.subarray(part * partBytes, (part + 1) * partBytes),
  );
  parts[rank]!.set(input);
  const hostOf = (r: number): number => hosts.findIndex((ranks) => ranks.includes(r));
  const host = hostOf(rank);
  const neighbours = (hosts[host] ?? []).filter((resident) => resident !== rank);
  const pieces: readonly Gathered[] = rankPieces(parts, hosts)
    .map((piece) => ({
      ...piece,
      distance: (host - hostOf(piece.rank) + hosts.length) % hosts.length,
    }))
    .sort((a, b) => a.distance - b.distance);
  const around = (step: number): number => (host + step + hosts.length) % hosts.length;
  const moving: Promise<void>[] = [];
  /** What this rank gives to the others of its host, and to the next host if that has yet to get it. */
  const passing: { readonly piece: Gathered; readonly arrived: Promise<void> | undefined }[] = [];
  for (const piece of pieces) {
    const { owners, bytes } = piece;
    const owner = owners[host] ?? rank;
    if (owner !== rank) moving.push(wire.recv(owner, bytes));
    else if (piece.rank === rank) passing.push({ piece, arrived: undefined });
    else passing.push({ piece, arrived: wire.recv(owners[around(-1)] ?? rank, bytes) });
  }
  for (const { piece, arrived } of passing) {
    await arrived;
    const { owners, bytes, distance } = piece;
    const next = distance + 1 < hosts.length ? [owners[around(1)] ?? rank] : [];
    moving.push(...[...next, ...neighbours].map((to) => wire.send(to, bytes)));
  }
  await Promise.all(moving);
}

/** How many hosts it has passed when it comes here, which is the order in which it comes. */
interface Gathered extends RankPiece {
  readonly distance: number;
}

export const hierarchicalAllGatherCost: Cost = {
  steps: (size, hosts) => hosts - 1 + (size > hosts ? 1 : 0),
  bytesPerRank: (size, bytes, hosts) => (hosts - 1 + (size / hosts - 1) * hosts) * bytes,
  bytesPerHost: (size, bytes, hosts) => (hosts - 1) * (size / hosts) * bytes,
};

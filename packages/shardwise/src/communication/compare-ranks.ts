import { allGatherObject } from '@shardwise/collectives';
import { ConfigError, type ProcessGroup } from '@shardwise/core/extend';
import { z } from 'zod';
import type { AwaitedRank } from './comms-summary.ts';

/** The collectives of one group that a rank has finished. The arrays have a number for each call, in their order. */
export interface GroupCalls {
  /** The name of the group, which all its ranks know. */
  readonly name: string;
  /** The ranks of the group, by their numbers in the world. */
  readonly ranks: readonly number[];
  readonly latencyMs: Float64Array;
  /** The part of the latency for which ranks had not come. */
  readonly waitingMs: Float64Array;
  /** The part of that in which the rank computed nothing. */
  readonly idleMs: Float64Array;
}

/** What one rank has finished. */
export interface RankCalls {
  readonly groups: readonly GroupCalls[];
  /** For each rank of the world, how long this one waited for its messages and computed nothing. */
  readonly messagesMs: Float64Array;
}

/** What ranks find by comparing their calls. */
interface Comparison {
  /** For each group of this rank and each call, the latency beyond the least latency of any rank. */
  readonly stragglerMs: readonly (readonly number[])[];
  readonly awaited: readonly AwaitedRank[];
}

const times = z.instanceof(Float64Array);
const sentCalls = z.array(
  z.object({
    name: z.string(),
    ranks: z.array(z.int().nonnegative()),
    latencyMs: times,
    waitingMs: times,
  }),
);
type SentCalls = z.infer<typeof sentCalls>[number];

/**
 * Compares the calls of all ranks of a world. All ranks call it. It needs no common clock: the rank that waited least
 * for a collective came last, so the others waited for this one. Throws ConfigError if ranks have not finished the same
 * numbers of calls.
 */
export async function compareRanks(world: ProcessGroup, own: RankCalls): Promise<Comparison> {
  const sent = own.groups.map(({ name, ranks, latencyMs, waitingMs }) => ({
    name,
    ranks: [...ranks],
    latencyMs,
    waitingMs,
  }));
  const all = (await allGatherObject(world, sent)).map((calls) => sentCalls.parse(calls));
  const byName = all.map((calls) => new Map(calls.map((each) => [each.name, each])));
  for (const calls of all) for (const group of calls) requireEqualCalls(group, byName);
  const waitedMs = own.messagesMs.slice();
  const stragglerMs = own.groups.map((group) => {
    const members = group.ranks.flatMap((rank) => byName[rank]?.get(group.name) ?? []);
    return Array.from(group.latencyMs, (latency, call) => {
      const waits = members.map((member) => member.waitingMs[call] ?? 0);
      const last = group.ranks[waits.indexOf(Math.min(...waits))] ?? 0;
      if (last !== world.rank) waitedMs[last] = (waitedMs[last] ?? 0) + (group.idleMs[call] ?? 0);
      return latency - Math.min(...members.map((member) => member.latencyMs[call] ?? 0));
    });
  });
  const waits = (await allGatherObject(world, waitedMs)).map((each) => times.parse(each));
  return { stragglerMs, awaited: awaitedRanks(waits) };
}

/** `waits[a][b]` is how long rank a waited for rank b. */
function awaitedRanks(waits: readonly Float64Array[]): readonly AwaitedRank[] {
  const sum = (values: Iterable<number>): number => [...values].reduce((a, b) => a + b, 0);
  return waits
    .map((own, rank) => {
      const byRank = waits.map((each) => each[rank] ?? 0);
      return { rank, awaitedMs: sum(byRank), byRank, waitedMs: sum(own) };
    })
    .toSorted((a, b) => b.awaitedMs - a.awaitedMs || a.rank - b.rank);
}

function requireEqualCalls(
  { name, ranks }: SentCalls,
  byName: readonly ReadonlyMap<string, SentCalls>[],
): void {
  const counts = ranks.map((rank) => byName[rank]?.get(name)?.latencyMs.length ?? 0);
  if (counts.every((count) => count === counts[0])) return;
  throw new ConfigError(
    {
      asked: 'to compare the calls of ranks',
      found: `on the group ${name}, the ranks ${ranks.join(', ')} have logged ${counts.join(', ')} calls`,
      todo: 'Start and stop the logger at the same places of the program on all ranks',
    },
    { group: name, ranks, counts },
  );
}

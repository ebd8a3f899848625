import type { FlightDump, FlightEntry } from '@shardwise/collectives';

/** One group as the dumps of its ranks show it. */
export interface GroupView {
  readonly name: string;
  /** The rank in the world of each rank of the group, in the order of the group. */
  readonly members: readonly number[];
  /** The members that have left a dump, by their rank in the world. */
  readonly ranks: ReadonlyMap<number, RankView>;
}

/** The calls of one rank on one group, except those that it made after another rank had given up. */
interface RankView {
  readonly collectives: ReadonlyMap<number, FlightEntry>;
  readonly messages: readonly FlightEntry[];
  /** The lowest sequence number that the ring still holds. If the ring holds none, the number of the next call. */
  readonly first: number;
  /** The highest sequence number. It is -1 if the rank made no call. */
  readonly last: number;
  /** The latest call of any kind. */
  readonly latest: FlightEntry | undefined;
  /** The first call that the rank made after another rank had given up. */
  readonly late: FlightEntry | undefined;
}

/**
 * Returns when the first rank gave up because of a timeout, in nanoseconds since the epoch. Returns undefined if no
 * rank did.
 */
export function firstTimeoutNs(dumps: Iterable<FlightDump>): number | undefined {
  const times = [...dumps].flatMap(({ failure }) =>
    failure?.code === 'COLLECTIVE_TIMEOUT' ? [failure.time_ns] : [],
  );
  return times.length === 0 ? undefined : times.reduce((a, b) => Math.min(a, b));
}

/** The groups of all dumps, by name. */
export function groupViews(dumps: ReadonlyMap<number, FlightDump>): readonly GroupView[] {
  const groups = new Map<string, { members: readonly number[]; ranks: Map<number, RankView> }>();
  const timeoutNs = firstTimeoutNs(dumps.values()) ?? Infinity;
  for (const [rank, dump] of dumps) {
    const entries = Map.groupBy(dump.entries, (entry) => entry.process_group[0]);
    for (const [id, { name, ranks }] of Object.entries(dump.pg_config)) {
      const members = parseRanks(ranks);
      if (!members.includes(rank)) continue;
      const group = groups.get(name) ?? { members, ranks: new Map<number, RankView>() };
      const enqueued = dump.pg_status[id]?.last_enqueued_collective ?? -1;
      group.ranks.set(rank, rankView(entries.get(name) ?? [], enqueued, timeoutNs));
      groups.set(name, group);
    }
  }
  return [...groups].map(([name, group]) => ({ name, ...group }));
}

function rankView(entries: readonly FlightEntry[], enqueued: number, timeoutNs: number): RankView {
  const inTime = entries.filter((entry) => entry.time_created_ns <= timeoutNs);
  const late = entries.find((entry) => entry.time_created_ns > timeoutNs);
  const collectives = new Map(
    inTime.filter((entry) => !entry.is_p2p).map((entry) => [entry.collective_seq_id, entry]),
  );
  const last =
    late !== undefined
      ? late.collective_seq_id - 1
      : [...collectives.keys()].reduce((a, b) => Math.max(a, b), enqueued);
  return {
    collectives,
    messages: inTime.filter((entry) => entry.is_p2p),
    first: [...collectives.keys()].reduce((a, b) => Math.min(a, b), last + 1),
    last,
    latest: inTime.at(-1),
    late,
  };
}

function parseRanks(ranks: string): readonly number[] {
  return ranks.match(/\d+/g)?.map(Number) ?? [];
}

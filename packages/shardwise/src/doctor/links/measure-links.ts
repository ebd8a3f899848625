import { allGatherObject } from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core/extend';
import { type Link, linksSchema, type RankFacts, rankFactsSchema } from './link-report.ts';

/** How much is sent over each link. */
export interface LinkLoad {
  readonly smallMessages: number;
  readonly largeMessages: number;
  readonly largeBytes: number;
}

const defaultLoad: LinkLoad = { smallMessages: 30, largeMessages: 4, largeBytes: 4 << 20 };

/**
 * Measures the links between all ranks, one after the other, so that none slows another down. All ranks of the group
 * call it. Every rank gets the facts of all ranks, and every link.
 */
export async function measureLinks(
  group: ProcessGroup,
  facts: RankFacts,
  load: LinkLoad = defaultLoad,
): Promise<{ readonly ranks: readonly RankFacts[]; readonly links: readonly Link[] }> {
  const gathered = await allGatherObject(group, { ...facts });
  const ranks = gathered.map((value) => rankFactsSchema.parse(value));
  const own: Link[] = [];
  for (let from = 0; from < group.size; from++) {
    for (let to = from + 1; to < group.size; to++) {
      await group.barrier();
      if (group.rank === from) own.push(await ask(group, to, load));
      if (group.rank === to) await answer(group, from, load);
    }
  }
  const all = await allGatherObject(
    group,
    own.map((link) => ({ ...link })),
  );
  return { ranks, links: all.flatMap((links) => linksSchema.parse(links)) };
}

/** A message with the clock of the answering rank: one f64, in milliseconds since the epoch. */
const CLOCK_BYTES = 8;

async function ask(group: ProcessGroup, to: number, load: LinkLoad): Promise<Link> {
  const clock = new Float64Array(1);
  const small = { bytes: new Uint8Array(clock.buffer), dtype: 'u8' } as const;
  const trips: { readonly ms: number; readonly aheadMs: number }[] = [];
  // The first message of each size opens connections and allocates.
  for (let count = 0; count <= load.smallMessages; count++) {
    const startMs = nowMs();
    await group.send(small, to);
    await group.recv(small, to);
    const endMs = nowMs();
    const aheadMs = (clock[0] ?? 0) - (startMs + endMs) / 2;
    if (count > 0) trips.push({ ms: endMs - startMs, aheadMs });
  }
  const large = { bytes: new Uint8Array(load.largeBytes), dtype: 'u8' } as const;
  let fastestMs = Infinity;
  for (let count = 0; count <= load.largeMessages; count++) {
    const startMs = nowMs();
    await group.send(large, to);
    await group.recv(large, to);
    if (count > 0) fastestMs = Math.min(fastestMs, nowMs() - startMs);
  }
  const sorted = trips.toSorted((a, b) => a.ms - b.ms);
  return {
    from: group.rank,
    to,
    latencyUs: ((sorted[sorted.length >> 1]?.ms ?? 0) / 2) * 1000,
    bytesPerSecond: load.largeBytes / (Math.max(fastestMs, RESOLUTION_MS) / 2 / 1000),
    // The shortest trip says most exactly when the other rank looked at its clock.
    clockAheadMs: sorted[0]?.aheadMs ?? 0,
  };
}

/** Shorter times than this are not measured. */
const RESOLUTION_MS = 0.001;

async function answer(group: ProcessGroup, from: number, load: LinkLoad): Promise<void> {
  const clock = new Float64Array(CLOCK_BYTES / Float64Array.BYTES_PER_ELEMENT);
  const small = { bytes: new Uint8Array(clock.buffer), dtype: 'u8' } as const;
  for (let count = 0; count <= load.smallMessages; count++) {
    await group.recv(small, from);
    clock[0] = nowMs();
    await group.send(small, from);
  }
  const large = { bytes: new Uint8Array(load.largeBytes), dtype: 'u8' } as const;
  for (let count = 0; count <= load.largeMessages; count++) {
    await group.recv(large, from);
    await group.send(large, from);
  }
}

/** Milliseconds since the epoch, with fractions. */
function nowMs(): number {
  return performance.timeOrigin + performance.now();
}

import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import { linkNames, type PlayedReplica, playReplicas, slowdownOf } from './play-replicas.ts';
import { rankAt, type SimulatedRun, type SimulatedSpan, sizeOfRun } from './simulated-run.ts';

/** Options of `simulateRun`. */
export interface SimulateOptions {
  /** Whether replicas that do the same are played once. It changes nothing but the time. Default: true. */
  readonly once?: boolean;
  /** The ranks of which the timeline is kept. Default: none. */
  readonly timelines?: readonly number[];
}

const simulateRules: OptionRules<SimulateOptions> = {
  once: option.flag,
  timelines: option.listOf(option.integer(0)),
};

/** What a rank does in a step. */
export interface SimulatedRank {
  /** The time in which it computes. */
  readonly busySeconds: number;
  /** The time at which it has computed the last of its gradients. */
  readonly backwardSeconds: number;
  readonly endSeconds: number;
}

/** A step of a run in the simulator. */
export interface Simulation {
  readonly stepSeconds: number;
  /** The share of the time of all ranks in which they do not compute. */
  readonly idleShare: number;
  /** What a rank of a place does. All ranks of the place do the same. */
  rank(rank: number): SimulatedRank;
  /** The timelines that were asked for, by rank. */
  readonly timelines: ReadonlyMap<number, readonly SimulatedSpan[]>;
  /** The number of replicas that were played. */
  readonly played: number;
}

/**
 * Plays one step of a run: each place of each pipeline executes its actions in their order and waits for its messages,
 * which share links. Then all replicas reduce the gradients of each place, and every rank updates its parameters.
 *
 * Throws ConfigError for times of other places than the schedule has, and for ranks that the run does not have.
 */
export function simulateRun(run: SimulatedRun, options: SimulateOptions = {}): Simulation {
  checkOptions('simulateRun', options, simulateRules);
  const { once = true, timelines = [] } = options;
  checkRun(run, timelines);
  const kept = new Set(timelines.map((rank) => placeOf(run, rank).replica));
  const groups = once ? alikeGroups(run) : [{ replicas: all(run.replicas), like: [] }];
  const played = new Map<number, PlayedReplica>();
  let count = 0;
  for (const { replicas, like } of groups) {
    const wanted = (replica: number): boolean =>
      kept.has(replica) || like.some((others) => kept.has(others[replicas.indexOf(replica)] ?? -1));
    const results = playReplicas(run, replicas, wanted);
    count += replicas.length;
    for (const [index, result] of results.entries()) {
      played.set(result.replica, result);
      for (const others of like) {
        const other = others[index];
        if (other !== undefined) played.set(other, result);
      }
    }
  }
  return finish(run, played, timelines, count);
}

interface AlikeGroup {
  /** Replicas whose messages share links with each other, and with no others. */
  readonly replicas: readonly number[];
  /** Groups that do the same, in the same order. */
  readonly like: readonly (readonly number[])[];
}

/**
 * Divides the replicas into groups that share no links, and finds those that are alike: as many replicas, with the
 * same slow places, whose links are shared in the same pattern.
 */
function alikeGroups(run: SimulatedRun): readonly AlikeGroup[] {
  const byKey = new Map<string, { replicas: readonly number[]; like: (readonly number[])[] }>();
  for (const replicas of sharingGroups(run)) {
    const key = keyOfGroup(run, replicas);
    const known = byKey.get(key);
    if (known === undefined) byKey.set(key, { replicas, like: [] });
    else known.like.push(replicas);
  }
  return [...byKey.values()];
}

function sharingGroups(run: SimulatedRun): readonly (readonly number[])[] {
  const leader = all(run.replicas);
  const find = (replica: number): number => {
    let at = replica;
    while ((leader[at] ?? at) !== at) at = leader[at] ?? at;
    leader[replica] = at;
    return at;
  };
  const firstOn = new Map<string, number>();
  for (const replica of leader.keys()) {
    for (const name of linkNames(run, replica)) {
      const first = firstOn.get(name);
      if (first === undefined) firstOn.set(name, replica);
      else leader[find(replica)] = find(first);
    }
  }
  const groups = new Map<number, number[]>();
  for (const replica of leader.keys()) {
    const at = find(replica);
    groups.set(at, [...(groups.get(at) ?? []), replica]);
  }
  return [...groups.values()];
}

/** Groups with the same key do the same: links are numbered in the order in which the replicas of the group use them. */
function keyOfGroup(run: SimulatedRun, replicas: readonly number[]): string {
  const numbers = new Map<string, number>();
  const numberOf = (name: string): string => {
    const number = numbers.get(name) ?? numbers.size;
    numbers.set(name, number);
    return `${name.split(' ', 1)[0]}${number}`;
  };
  return replicas
    .map((replica) => {
      const slow = run.places.map((_, place) => slowdownOf(run, place, replica)).join();
      return `${slow} ${linkNames(run, replica).map(numberOf).join()}`;
    })
    .join(';');
}

function finish(
  run: SimulatedRun,
  played: ReadonlyMap<number, PlayedReplica>,
  timelines: readonly number[],
  count: number,
): Simulation {
  // The ranks of a place reduce their gradients when the last replica has them.
  const reduced = run.places.map(({ reduceSeconds }, place) => {
    const ready = Math.max(...[...played.values()].map(({ endSeconds }) => endSeconds[place] ?? 0));
    return { ready, end: ready + reduceSeconds };
  });
  const endOf = (place: number): number =>
    (reduced[place]?.end ?? 0) + (run.places[place]?.updateSeconds ?? 0);
  const stepSeconds = Math.max(...run.places.map((_, place) => endOf(place)));
  let busy = 0;
  for (const { busySeconds } of played.values()) {
    for (const [place, seconds] of busySeconds.entries()) {
      busy += seconds + (run.places[place]?.updateSeconds ?? 0);
    }
  }
  return {
    stepSeconds,
    idleShare: 1 - busy / (stepSeconds * run.places.length * run.replicas),
    played: count,
    rank(rank) {
      const { place, replica } = placeOf(run, rank);
      const own = played.get(replica);
      return {
        busySeconds: own?.busySeconds[place] ?? 0,
        backwardSeconds: own?.endSeconds[place] ?? 0,
        endSeconds: endOf(place),
      };
    },
    timelines: new Map(
      timelines.map((rank) => {
        const { place, replica } = placeOf(run, rank);
        const own = played.get(replica);
        const spans = own?.spans[place] ?? [];
        return [
          rank,
          [
            ...spans,
            ...lastSpans(own?.endSeconds[place] ?? 0, reduced[place]?.end ?? 0, endOf(place)),
          ],
        ];
      }),
    ),
  };
}

function lastSpans(backward: number, reduced: number, end: number): readonly SimulatedSpan[] {
  const spans: readonly SimulatedSpan[] = [
    {
      name: 'reduce gradients',
      category: 'communication',
      startSeconds: backward,
      endSeconds: reduced,
    },
    { name: 'update', category: 'optimizer', startSeconds: reduced, endSeconds: end },
  ];
  return spans.filter(({ startSeconds, endSeconds }) => endSeconds > startSeconds);
}

/** Returns where a rank is. */
function placeOf(
  { replicas, ranksOfPlace }: SimulatedRun,
  rank: number,
): { readonly place: number; readonly replica: number } {
  const actor = Math.floor(rank / ranksOfPlace);
  return { place: Math.floor(actor / replicas), replica: actor % replicas };
}

function checkRun(run: SimulatedRun, timelines: readonly number[]): void {
  const size = sizeOfRun(run);
  const { stragglers = {}, places, schedule } = run;
  const unknown = [...timelines, ...Object.keys(stragglers).map(Number)].find(
    (rank) => !Number.isInteger(rank) || rank < 0 || rank >= size,
  );
  if (places.length === schedule.ranks && unknown === undefined) return;
  throw new ConfigError(
    {
      asked: `a simulation of ${size} ranks with ${schedule.ranks} places in each pipeline`,
      found: unknown === undefined ? `times of ${places.length} places` : `the rank ${unknown}`,
      todo: 'Give times for each place, and ranks from 0',
    },
    { size, places: places.length },
  );
}

function all(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}

/** The number of the first rank of a place, for `timelines`. */
export function firstRankOf(run: SimulatedRun, place: number, replica = 0): number {
  return rankAt(run, place, replica, 0);
}

import { dist } from 'shardwise';
import type { Bench, BenchResult } from '../bench.ts';
import { type PeerOrReason, type PeerRound, startPeer } from '../peer.ts';
import { countOf, roundsFlag, roundsOf } from '../rounds.ts';
import { mean, median, pairedRatio, round, summarize, tokensPerSecond } from '../summary.ts';
import { UsageError } from '../usage-error.ts';
import { peerWall } from '../wall.ts';
import { largeWorkload } from '../workload.ts';
import { type MeasuredSchedule, measuredSchedule } from './measured-schedule.ts';
import {
  contestants,
  MICROBATCHES,
  type Mode,
  type RankRound,
  RANKS,
  type ScheduleMeasured,
} from './messages.ts';
import { type Ranks, startRanks } from './ranks.ts';

/** Without `--rounds`, the contestants take turns for this time, but for at least `leastRounds` rounds. */
const secondsOfAll = 180;
const leastRounds = 2;
/** A single step is long enough for a round. */
const STEPS_PER_ROUND = 1;
const ROWS = 8;
/**
 * The first round is a warm-up, in which code that is compiled while it runs needs several steps. It has as many steps
 * as make up this number of rows in a microbatch.
 */
const warmUpRows = 8;

const scheduleNames = Object.keys(contestants) as readonly ScheduleMeasured[];

/** The latencies that links add to messages, relative to the time of a forward action of 1F1B. */
const latencies = [0.5, 1] as const;

/** The targets of this benchmark, on two idle cores. */
const targets = {
  actionsOverAccumulation: 1.05,
  splitOverUnsplit: 1.03,
  efficiency: 0.93,
  zb1pOver1f1b: 1,
  bubblePoints: 2,
} as const;

/** Compares each schedule with the simulator, with the accumulation on one rank, and with PyTorch's schedule. */
export const pipeline: Bench = {
  about: `GPT of 25 million parameters in stages on ${RANKS} ranks, ${MICROBATCHES} microbatches: each schedule against the simulator and PyTorch's`,
  flags: {
    ...roundsFlag,
    rows: { type: 'string' },
    schedules: { type: 'string' },
    links: { type: 'boolean' },
  },
  run: async (values) => {
    const began = performance.now();
    const rounds = values['rounds'] === undefined ? null : roundsOf(values, leastRounds);
    const isEnough = (count: number, lastMs: number): boolean =>
      rounds === null
        ? count >= leastRounds && performance.now() + lastMs > began + 1000 * secondsOfAll
        : count >= rounds;
    const rows = countOf(values, 'rows', ROWS);
    const schedules = schedulesOf(values);
    const withLinks = values['links'] === true;
    const { layers, width, heads } = largeWorkload;
    const sizes = [layers, width, heads, rows, MICROBATCHES].map(String);
    const started = withLinks
      ? { reason: 'links with latency are measured in its time' }
      : await startPeer('gpt_pipeline.py', sizes);
    const modes: readonly Mode[] = ['alone', ...schedules];
    // Each mode has its own world, so that what one schedule leaves behind takes no memory from another.
    const ranks = new Map(modes.map((mode) => [mode, startRanks(mode, rows)]));
    try {
      return await compare(ranks, started, { rows, schedules, withLinks, isEnough });
    } finally {
      for (const each of ranks.values()) await each.close();
      if ('peer' in started) await started.peer.close();
    }
  },
};

/** Returns the schedules that `--schedules` names, separated by commas. Default: all. Throws UsageError. */
function schedulesOf({
  schedules: given,
}: Readonly<Record<string, unknown>>): readonly ScheduleMeasured[] {
  if (given === undefined) return scheduleNames;
  const names = typeof given === 'string' ? given.split(',') : [];
  const unknown = names.find((name) => !scheduleNames.some((known) => known === name));
  if (unknown !== undefined) {
    const known = scheduleNames.join(',');
    throw new UsageError(`--schedules has '${unknown}'`, `Give some of ${known}`);
  }
  return scheduleNames.filter((name) => names.includes(name));
}

interface Contest {
  readonly rows: number;
  readonly schedules: readonly ScheduleMeasured[];
  /** Whether delayed messages are measured too. */
  readonly withLinks: boolean;
  /** Whether this number of rounds suffices. The last round took `lastMs`. */
  readonly isEnough: (rounds: number, lastMs: number) => boolean;
}

async function compare(
  ranks: ReadonlyMap<Mode, Ranks>,
  started: PeerOrReason,
  { rows, schedules, withLinks, isEnough }: Contest,
): Promise<BenchResult> {
  const peer = 'peer' in started ? started.peer : undefined;
  const ours = new Map<Mode, RankRound[][]>();
  const cpuMs = new Map<Mode, number[]>();
  const theirs = new Map<ScheduleMeasured, PeerRound[]>();
  const overLinks: OverLink[] = [];
  for (let [index, lastMs] = [0, 0]; !isEnough(index - 1, lastMs); index++) {
    const roundBegan = performance.now();
    const steps = index === 0 ? Math.ceil(warmUpRows / rows) : STEPS_PER_ROUND;
    for (const [mode, each] of ranks) {
      const before = process.cpuUsage();
      const answer = await each.round(steps);
      const { user, system } = process.cpuUsage(before);
      if (index > 0) cpuMs.set(mode, [...(cpuMs.get(mode) ?? []), (user + system) / 1000]);
      ours.set(mode, [...(ours.get(mode) ?? []), answer]);
    }
    if (withLinks && index > 0) {
      const base = schedules.includes('1f1b') ? '1f1b' : (schedules[0] ?? '1f1b');
      overLinks.push(...(await roundOverLinks(ranks, schedules, measuredOf(ours, base).at(-1))));
    }
    for (const mode of peer === undefined ? [] : schedules) {
      const request = {
        mode,
        steps,
        optimizer: 'default',
        precision: 'f32',
      } as const;
      const answer = await peer?.round(request);
      if (answer !== undefined) theirs.set(mode, [...(theirs.get(mode) ?? []), answer]);
    }
    lastMs = performance.now() - roundBegan;
  }
  const accumulation = counted(ours, 'alone').map((of) =>
    mean(of.flatMap(({ steps }) => steps.map(({ accumulationMs }) => accumulationMs))),
  );
  // Two ranks do this at the same time.
  const cpuMsAlone = (cpuMs.get('alone') ?? []).map((ms) => ms / RANKS);
  const base = measuredOf(ours, '1f1b');
  const baseTimes = timesOf(ours, '1f1b');
  const tokens = rows * MICROBATCHES * largeWorkload.context;
  const hasBase = schedules.includes('1f1b');
  const results = schedules.map((name) => {
    const measured = measuredOf(ours, name);
    const times = timesOf(ours, name);
    const peers = theirs.get(name);
    const peerTimes = peers && peerWall(peers);
    const over = (of: (each: MeasuredSchedule, index: number) => number): number =>
      round(median(measured.map(of)), 3);
    return {
      schedule: name,
      tokensPerSecond: round(tokensPerSecond(tokens, times.medianMs), 1),
      actionsMs: over(({ actionsMs }) => actionsMs),
      actionsOverAccumulation: over(
        ({ actionsMs }, index) => actionsMs / (accumulation[index] ?? Number.NaN),
      ),
      actionsOver1f1b: hasBase
        ? over(({ actionsMs }, index) => actionsMs / (base[index]?.actionsMs ?? Number.NaN))
        : null,
      cpuTimeOverAlone: round(
        median((cpuMs.get(name) ?? []).map((ms, at) => ms / (cpuMsAlone[at] ?? Number.NaN))),
        3,
      ),
      makespanMs: over(({ makespanMs }) => makespanMs),
      passMs: over(({ passMs }) => passMs),
      efficiency: over(({ makespanMs, passMs }) => makespanMs / passMs),
      bubble: over(({ bubble }) => bubble),
      simulatedBubble: over(({ simulatedBubble }) => simulatedBubble),
      bubblePoints: over(pointsOf),
      links: (withLinks ? latencies : []).map((overForward) => {
        const own = overLinks.filter(
          (each) => each.name === name && each.overForward === overForward,
        );
        const medianOf = (of: (each: OverLink) => number): number => round(median(own.map(of)), 3);
        return {
          overForward,
          latencyMs: medianOf(({ latencyMs }) => latencyMs),
          passMs: medianOf(({ measured }) => measured.passMs),
          makespanMs: medianOf(({ measured }) => measured.makespanMs),
          bubble: medianOf(({ measured }) => measured.bubble),
          simulatedBubble: medianOf(({ measured }) => measured.simulatedBubble),
          bubblePoints: medianOf(({ measured }) => pointsOf(measured)),
        };
      }),
      speedOver1f1b: hasBase ? round(pairedRatio(baseTimes, times), 3) : null,
      actionMs: meansOf(measured),
      times,
      lastLoss: lastLossOf(ours, name),
      peer:
        peerTimes === undefined
          ? null
          : {
              tokensPerSecond: round(tokensPerSecond(tokens, peerTimes.medianMs), 1),
              ratio: round(pairedRatio(peerTimes, times), 3),
              ratioOfBest: round(peerTimes.minMs / times.minMs, 3),
              times: peerTimes,
              lastLoss: peers?.at(-1)?.losses.at(-1) ?? Number.NaN,
            },
    };
  });
  return {
    rows: [
      [
        'one rank, accumulating',
        `${median(accumulation).toFixed(0)} ms without the update, two at the same time`,
      ],
      ...results.map((result) => [result.schedule, describe(result)] as const),
      [
        'targets',
        `actions ${targets.actionsOverAccumulation} of one rank's, split ${targets.splitOverUnsplit} of 1F1B's, efficiency ${targets.efficiency}, ZB1P ${targets.zb1pOver1f1b} of 1F1B's speed, bubbles within ${targets.bubblePoints} points of the simulator's`,
      ],
      'peer' in started
        ? ['PyTorch', `${started.peer.about.torch}, gloo (${started.peer.about.blas})`]
        : ['PyTorch', `not measured: ${started.reason}`],
    ],
    record: {
      workload: { ...largeWorkload, batch: rows * MICROBATCHES },
      ranks: RANKS,
      microbatches: MICROBATCHES,
      rowsOfMicrobatch: rows,
      targets,
      accumulationMs: round(median(accumulation), 2),
      lossAlone: lastLossOf(ours, 'alone'),
      results,
      peer: peer?.about ?? null,
      ...('reason' in started ? { reason: started.reason } : {}),
    },
  };
}

/** One round of a schedule over a link with some latency. */
interface OverLink {
  readonly name: ScheduleMeasured;
  readonly overForward: number;
  readonly latencyMs: number;
  readonly measured: MeasuredSchedule;
}

/**
 * Runs a round of each schedule over each link. The latency is relative to the time of forward actions of `base`, which
 * is 1F1B or the first schedule, in this round.
 */
async function roundOverLinks(
  ranks: ReadonlyMap<Mode, Ranks>,
  schedules: readonly ScheduleMeasured[],
  base: MeasuredSchedule | undefined,
): Promise<OverLink[]> {
  const forwards = Object.entries(base?.actionMs ?? {}).filter(([key]) => key.endsWith('F'));
  const forwardMs = mean(forwards.map(([, ms]) => ms));
  const found: OverLink[] = [];
  for (const overForward of latencies) {
    const latencyMs = overForward * forwardMs;
    for (const name of schedules) {
      const answer = await ranks.get(name)?.round(STEPS_PER_ROUND, latencyMs);
      if (answer === undefined) continue;
      const measured = measuredSchedule(scheduleOf(name), answer, latencyMs);
      found.push({ name, overForward, latencyMs, measured });
    }
  }
  return found;
}

/** Returns by how many percentage points ranks waited more than simulated. */
function pointsOf({ bubble, simulatedBubble }: MeasuredSchedule): number {
  return 100 * (bubble - simulatedBubble);
}

/** Returns the rounds without the first one, which is a warm-up. */
function counted(
  ours: ReadonlyMap<Mode, readonly (readonly RankRound[])[]>,
  mode: Mode,
): readonly (readonly RankRound[])[] {
  return (ours.get(mode) ?? []).slice(1);
}

function measuredOf(
  ours: ReadonlyMap<Mode, readonly (readonly RankRound[])[]>,
  name: ScheduleMeasured,
): MeasuredSchedule[] {
  const schedule = scheduleOf(name);
  return counted(ours, name).map((of) => measuredSchedule(schedule, of));
}

function scheduleOf(name: ScheduleMeasured): dist.schedules.Schedule {
  const stagesPerRank = (contestants[name].length + 1) / RANKS;
  return dist.schedules.pipelineSchedule(name, {
    ranks: RANKS,
    stagesPerRank,
    microbatches: MICROBATCHES,
  });
}

/** A round takes as long as its slowest rank. */
function timesOf(
  ours: ReadonlyMap<Mode, readonly (readonly RankRound[])[]>,
  name: ScheduleMeasured,
): ReturnType<typeof summarize> {
  return summarize(
    counted(ours, name).map((of) => [Math.max(...of.map(({ msPerStep }) => msPerStep))]),
  );
}

function meansOf(measured: readonly MeasuredSchedule[]): Record<string, number> {
  const keys = Object.keys(measured[0]?.actionMs ?? {});
  return Object.fromEntries(
    keys.map((key) => [
      key,
      round(median(measured.map(({ actionMs }) => actionMs[key] ?? Number.NaN)), 3),
    ]),
  );
}

function lastLossOf(
  ours: ReadonlyMap<Mode, readonly (readonly RankRound[])[]>,
  mode: Mode,
): number {
  return counted(ours, mode).at(-1)?.[0]?.steps.at(-1)?.loss ?? Number.NaN;
}

interface Result {
  readonly tokensPerSecond: number;
  readonly actionsOverAccumulation: number;
  readonly actionsOver1f1b: number | null;
  readonly cpuTimeOverAlone: number;
  readonly efficiency: number;
  readonly bubble: number;
  readonly simulatedBubble: number;
  readonly links: readonly {
    readonly overForward: number;
    readonly bubble: number;
    readonly simulatedBubble: number;
  }[];
  readonly speedOver1f1b: number | null;
  readonly peer: { readonly ratio: number; readonly ratioOfBest: number } | null;
}

function describe(of: Result): string {
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
  return [
    `${Math.round(of.tokensPerSecond)} tokens/s`,
    ...(of.speedOver1f1b === null ? [] : [`${of.speedOver1f1b.toFixed(2)} of 1F1B's`]),
    `actions ${of.actionsOverAccumulation.toFixed(2)} of one rank's`,
    ...(of.actionsOver1f1b === null ? [] : [`${of.actionsOver1f1b.toFixed(2)} of 1F1B's`]),
    `time on cores ${of.cpuTimeOverAlone.toFixed(2)} of one rank's`,
    `efficiency ${of.efficiency.toFixed(3)}`,
    `bubble ${percent(of.bubble)} (simulated ${percent(of.simulatedBubble)})`,
    ...of.links.map(
      (link) =>
        `with ${link.overForward} of a forward as latency ${percent(link.bubble)} (${percent(link.simulatedBubble)})`,
    ),
    ...(of.peer === null
      ? []
      : [`${of.peer.ratio.toFixed(2)} of PyTorch's (best ${of.peer.ratioOfBest.toFixed(2)})`]),
  ].join('; ');
}

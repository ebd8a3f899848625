import { median } from '../run-state/median.ts';
import type { RankFigures } from '../run-state/rank-figures.ts';
import type { RunState } from '../run-state/run-state.ts';
import { packageVersion } from '../text/package-version.ts';
import {
  MAX_SNAPSHOT_RANKS,
  type RankSnapshot,
  rankStates,
  type RankStatus,
  type Rates,
  type RunSnapshot,
  SNAPSHOT_FORMAT,
} from './run-snapshot.ts';
import { MAX_TEXT } from './snapshot-text.ts';

/** What a snapshot is made of. */
export interface SnapshotParts {
  readonly state: RunState;
  readonly ranks: readonly RankFigures[];
  readonly sequence: number;
  readonly nowMs: number;
  /** For each rank, the time since its last report. */
  readonly quietMs: readonly number[];
  /** How the run has ended. Undefined while it lasts. */
  readonly end?: RunEnding | undefined;
}

export interface RunEnding {
  readonly phase: 'finished' | 'stopped' | 'failed';
  readonly reason?: string | undefined;
}

/** A rank is slow if its own work takes this much longer than that of the median rank. */
const SLOW = 0.1;
/** Differences below this are noise. */
const SLOW_MS = 1;
/** Ranks report one after the other, so one step of difference is usual. */
const BEHIND_STEPS = 2;
/** A rank is quiet if it has not reported for this long, and for this many of its steps. */
const QUIET_MS = 5000;
const QUIET_STEPS = 5;

/** Returns the run at this moment. If there are very many ranks, it has the worst ones, in the order of their numbers. */
export function takeSnapshot(parts: SnapshotParts): RunSnapshot {
  const { state, sequence, nowMs, end } = parts;
  const { head, latest, recent, totalSteps, restarts, checkpoint, history } = state;
  const ranks = judgedRanks(parts);
  const validation = history.points.findLast((point) => point.validationLoss !== undefined);
  const leftMs =
    totalSteps === undefined || latest === undefined || recent === undefined
      ? undefined
      : Math.max(0, totalSteps - latest.step) * recent.stepMs;
  return {
    format: SNAPSHOT_FORMAT,
    version: packageVersion(),
    sequence,
    writtenMs: nowMs,
    phase: end?.phase ?? phaseOf(parts),
    reason: cut(end?.reason),
    script: cut(head.script) ?? '',
    runDirectory: cut(head.runDirectory) ?? '',
    startMs: head.startMs,
    transport: cut(head.transport),
    hosts: (head.hosts ?? []).map((host) => ({ ...host })),
    worldSize: head.worldSize,
    restarts: restarts.length,
    restartReason: cut(restarts.at(-1)?.reason),
    totalSteps,
    step: latest?.step,
    loss: latest?.loss,
    validationLoss: validation?.validationLoss,
    stepMs: recent?.stepMs,
    leftMs: end === undefined ? leftMs : undefined,
    ...sums(ranks),
    checkpointStep: checkpoint?.step,
    ranks: worstFirst(ranks)
      .slice(0, MAX_SNAPSHOT_RANKS)
      .toSorted((a, b) => a.rank - b.rank),
  };
}

/** The ranks by how bad they are: by state, and then by how much they do not wait for others. */
export function worstFirst(ranks: readonly RankSnapshot[]): readonly RankSnapshot[] {
  const place = ({ state }: RankSnapshot): number => rankStates.indexOf(state);
  return ranks.toSorted(
    (a, b) =>
      place(a) - place(b) ||
      (a.state === 'quiet' ? b.quietMs - a.quietMs : 0) ||
      (a.state === 'behind' ? (a.step ?? 0) - (b.step ?? 0) : 0) ||
      (b.slowness ?? 0) - (a.slowness ?? 0) ||
      a.rank - b.rank,
  );
}

function phaseOf({ state, ranks }: SnapshotParts): RunSnapshot['phase'] {
  if (state.stopping) return 'stopping';
  if (state.head.transport === undefined) return 'gathering';
  return ranks.some(({ reports }) => reports > 0) ? 'running' : 'starting';
}

function sums(ranks: readonly RankSnapshot[]): Rates {
  const sum = (name: keyof Rates): number | undefined => {
    const values = ranks.map((rank) => rank[name]).filter((value) => value !== undefined);
    return values.length === 0 ? undefined : values.reduce((total, value) => total + value, 0);
  };
  return {
    tokensPerSecond: sum('tokensPerSecond'),
    samplesPerSecond: sum('samplesPerSecond'),
    memoryBytes: sum('memoryBytes'),
    sentBytesPerSecond: sum('sentBytesPerSecond'),
    receivedBytesPerSecond: sum('receivedBytesPerSecond'),
  };
}

function judgedRanks({ state, ranks, quietMs, end }: SnapshotParts): readonly RankSnapshot[] {
  const hostNames = (state.head.hosts ?? []).flatMap(({ name, ranks: count }) =>
    Array.from({ length: count }, () => name),
  );
  const working = ranks.flatMap(({ recent }) => recent ?? []);
  const medianMs = median(working.map(ownMs)) ?? 0;
  const leastMs = Math.min(...working.map(({ communicationMs }) => communicationMs));
  const furthest = Math.max(...ranks.map(({ last }) => last?.step ?? 0));
  return ranks.map((figures, rank): RankSnapshot => {
    const { last, recent, exitCode } = figures;
    const silentMs = quietMs[rank] ?? 0;
    const ownExcessMs = recent === undefined ? 0 : ownMs(recent) - medianMs;
    const base = {
      rank,
      host: hostNames[rank],
      state: statusOf(figures, {
        isOver: end !== undefined,
        silentMs,
        furthest,
        isSlow: ranks.length > 1 && ownExcessMs > Math.max(SLOW_MS, SLOW * medianMs),
      }),
      exitCode,
      quietMs: silentMs,
    };
    if (last === undefined || recent === undefined) return base;
    const perSecond = (value: number | undefined): number | undefined =>
      value === undefined || recent.stepMs === 0 ? undefined : (value / recent.stepMs) * 1000;
    return {
      ...base,
      step: last.step,
      loss: last.loss,
      stepMs: recent.stepMs,
      computeMs: recent.computeMs,
      communicationMs: recent.communicationMs,
      waitingMs: recent.communicationMs - leastMs,
      dataMs: recent.dataMs,
      graphMs: recent.graphMs,
      slowness: medianMs > 0 ? ownExcessMs / medianMs : undefined,
      tokensPerSecond: perSecond(recent.tokens),
      samplesPerSecond: perSecond(recent.samples),
      memoryBytes: last.memoryBytes,
      sentBytesPerSecond: perSecond(recent.sentBytes),
      receivedBytesPerSecond: perSecond(recent.receivedBytes),
    };
  });
}

interface Surroundings {
  readonly isOver: boolean;
  readonly silentMs: number;
  /** The last step of the rank that is ahead of all. */
  readonly furthest: number;
  readonly isSlow: boolean;
}

function statusOf(
  { last, recent, exitCode }: RankFigures,
  { isOver, silentMs, furthest, isSlow }: Surroundings,
): RankStatus {
  if (exitCode !== undefined) return exitCode === 0 ? 'ended' : 'failed';
  if (isOver) return 'ended';
  const isLate = silentMs > Math.max(QUIET_MS, QUIET_STEPS * (recent?.stepMs ?? 0));
  // Before the first step of any rank, all of them load and compile.
  if (isLate && furthest > 0) return 'quiet';
  if (last === undefined) return 'waiting';
  if (furthest - last.step >= BEHIND_STEPS) return 'behind';
  return isSlow ? 'slow' : 'running';
}

/** The time of a step in which the rank did not wait for others. */
function ownMs({ stepMs, communicationMs }: NonNullable<RankFigures['recent']>): number {
  return Math.max(0, stepMs - communicationMs);
}

function cut(text: string | undefined): string | undefined {
  return text?.slice(0, MAX_TEXT);
}

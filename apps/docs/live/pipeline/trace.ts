import {
  formatAction,
  type ScheduledAction,
  type Schedule,
  simulateSchedule,
  type StageCosts,
  type TimedAction,
} from '@shardwise/strategies';
import type { Span } from '../live-job.ts';
import type { LiveRankState } from '../live-run.ts';

/** The actions of ranks in one step. Times are in milliseconds from the beginning of the first action. */
export interface Trace {
  /** Undefined if the actions are planned and not recorded. */
  readonly step: number | undefined;
  readonly ranks: readonly (readonly TimedAction[])[];
  readonly endMs: number;
  /** The share of time in which ranks computed nothing. */
  readonly bubble: number;
  /**
   * The same share in the simulator, if each action took its mean time in this trace and ranks waited only for
   * messages.
   */
  readonly plannedBubble: number;
}

/** Returns the latest step, if all ranks have recorded all of its actions. Otherwise returns undefined. */
export function traceOf(
  schedule: Schedule,
  states: readonly LiveRankState<null>[],
): Trace | undefined {
  const snapshots = states.flatMap(({ snapshot }) => snapshot ?? []);
  const [first] = snapshots;
  if (first === undefined || snapshots.length < schedule.ranks) return undefined;
  if (snapshots.some(({ step }) => step !== first.step)) return undefined;
  const names = schedule.actions.map(
    (actions) => new Map(actions.map((action) => [formatAction(action), action] as const)),
  );
  // Other events, such as passing buffers from stage to stage, belong to no schedule.
  const spans = snapshots.map(({ spans: all }, rank) =>
    all.filter(({ category, name }) => category === 'stage' && names[rank]?.has(name)),
  );
  if (spans.some((own, rank) => own.length !== names[rank]?.size)) return undefined;
  const beginMs = Math.min(...spans.flat().map(({ startMs }) => startMs));
  const ranks = spans.map((own, rank) =>
    own.flatMap((span) => timed(names[rank]?.get(span.name), span, beginMs)),
  );
  const all = ranks.flat();
  const endMs = Math.max(...all.map((each) => each.endMs));
  const busyMs = all.reduce((sum, each) => sum + each.endMs - each.startMs, 0);
  return {
    step: first.step,
    ranks,
    endMs,
    bubble: 1 - busyMs / (endMs * schedule.ranks),
    plannedBubble: simulateSchedule(schedule, { stages: stageCosts(schedule, all) }).bubble,
  };
}

/** Returns the actions of a schedule as the simulator times them: each part of a stage takes a millisecond. */
export function plannedTrace(schedule: Schedule): Trace {
  // A rank with two stages has half of its layers in each of them.
  const ms = schedule.ranks / schedule.stages;
  const stage = { forwardMs: ms, inputGradientMs: ms, weightGradientMs: ms };
  const stages = Array.from({ length: schedule.stages }, () => stage);
  const { ranks, makespanMs, bubble } = simulateSchedule(schedule, { stages });
  return {
    step: undefined,
    ranks: ranks.map(({ actions }) => actions),
    endMs: makespanMs,
    bubble,
    plannedBubble: bubble,
  };
}

function timed(
  action: ScheduledAction | undefined,
  { startMs, durationMs }: Span,
  beginMs: number,
): readonly TimedAction[] {
  if (action === undefined) return [];
  return [{ action, startMs: startMs - beginMs, endMs: startMs - beginMs + durationMs }];
}

/** Returns the mean times of the actions of each stage. */
function stageCosts(schedule: Schedule, actions: readonly TimedAction[]): readonly StageCosts[] {
  return Array.from({ length: schedule.stages }, (_, stage) => {
    const mean = (...kinds: readonly ScheduledAction['kind'][]): number => {
      const own = actions.filter(
        ({ action }) =>
          action.kind !== 'overlap' && action.stage === stage && kinds.includes(action.kind),
      );
      const sum = own.reduce((total, { startMs, endMs }) => total + endMs - startMs, 0);
      return own.length === 0 ? 0 : sum / own.length;
    };
    return {
      forwardMs: mean('forward'),
      inputGradientMs: mean('backward', 'inputGradient'),
      weightGradientMs: mean('weightGradient'),
    };
  });
}

/** The microbatches of a rank at a moment, as ascending numbers. */
export interface RankMoment {
  readonly computes: TimedAction | undefined;
  /** The microbatches whose next forward is on this rank. */
  readonly activations: readonly number[];
  /** The microbatches whose next backward is on this rank. */
  readonly gradients: readonly number[];
  /** The number of pairs of stage and microbatch whose activations the rank keeps. */
  readonly kept: number;
}

/** Returns where all microbatches of a trace are at a time. */
export function momentOf(trace: Trace, microbatches: number, atMs: number): readonly RankMoment[] {
  const waiting = trace.ranks.map(() => ({
    activations: [] as number[],
    gradients: [] as number[],
  }));
  for (let microbatch = 0; microbatch < microbatches; microbatch += 1) {
    // Actions for weight gradients pass nothing on to other ranks.
    const way = trace.ranks
      .flatMap((actions, rank) => actions.map((each) => ({ ...each, rank })))
      .filter(({ action }) => isOf(action, microbatch) && action.kind !== 'weightGradient')
      .toSorted((a, b) => a.startMs - b.startMs);
    const next = way.find(({ endMs }) => endMs > atMs);
    if (next === undefined || next.startMs <= atMs) continue;
    waiting[next.rank]?.[next.action.kind === 'forward' ? 'activations' : 'gradients'].push(
      microbatch,
    );
  }
  return trace.ranks.map((actions, rank) => ({
    computes: actions.find(({ startMs, endMs }) => startMs <= atMs && endMs > atMs),
    activations: waiting[rank]?.activations ?? [],
    gradients: waiting[rank]?.gradients ?? [],
    kept: keptAt(actions, atMs),
  }));
}

const isOf = (action: ScheduledAction, microbatch: number): boolean =>
  action.kind !== 'overlap' && action.microbatch === microbatch;

/**
 * Returns for how many forwards a rank keeps activations. It keeps them until the weight gradient, or the whole
 * backward, has ended.
 */
function keptAt(actions: readonly TimedAction[], atMs: number): number {
  const ended = actions.filter(({ endMs }) => endMs <= atMs).map(({ action }) => action.kind);
  const count = (kind: ScheduledAction['kind']): number =>
    ended.filter((each) => each === kind).length;
  return count('forward') - count('backward') - count('weightGradient');
}

/**
 * Returns the first time after this one at which a rank begins an action. After the last one, returns the beginning.
 */
export function nextMoment(trace: Trace, atMs: number): number {
  const starts = trace.ranks.flat().map(({ startMs }) => startMs);
  const later = starts.filter((startMs) => startMs > atMs);
  return later.length === 0 ? 0 : Math.min(...later);
}

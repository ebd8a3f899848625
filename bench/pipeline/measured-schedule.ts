import { dist } from 'shardwise';
import { mean } from '../summary.ts';
import type { MeasuredAction, RankRound } from './messages.ts';

/** The means over the steps of one round of a schedule. Times are in milliseconds, and shares from 0 to 1. */
export interface MeasuredSchedule {
  /** The time of all actions of all ranks, without waiting. */
  readonly actionsMs: number;
  /**
   * The time from the beginning of the step, before the graph is built, until the last action of the last rank has
   * ended.
   */
  readonly passMs: number;
  /** The time in the simulator, if each action takes the mean time of the actions of its kind and stage. */
  readonly makespanMs: number;
  /** The share of time in which ranks waited, between the beginning of the first action and the end of the last one. */
  readonly bubble: number;
  readonly simulatedBubble: number;
  /** Mean times by stage and kind, such as `0F`. */
  readonly actionMs: Readonly<Record<string, number>>;
}

interface OwnAction extends MeasuredAction {
  readonly action: dist.schedules.ComputeAction;
}

/** Evaluates one round. `latencyMs` is by how much messages were delayed in this round. */
export function measuredSchedule(
  schedule: dist.schedules.Schedule,
  ranks: readonly RankRound[],
  latencyMs = 0,
): MeasuredSchedule {
  const byName = new Map(
    schedule.actions
      .flat()
      .flatMap((action) => (action.kind === 'overlap' ? action.actions : [action]))
      .map((action) => [dist.schedules.formatAction(action), action]),
  );
  const count = ranks[0]?.steps.length ?? 0;
  const steps = Array.from({ length: count }, (_, index) => {
    const ofRanks = ranks.flatMap(({ steps: own }) => own[index] ?? []);
    const actions = ofRanks
      .flatMap((own) => own.actions)
      .flatMap((each): OwnAction[] => {
        // A rank has other events too, such as passing on the loss.
        const action = byName.get(each.name);
        return action === undefined ? [] : [{ ...each, action }];
      });
    if (actions.length !== byName.size)
      throw new Error(
        `${schedule.name}: ${actions.length} actions of ${byName.size} were measured`,
      );
    return { startMs: Math.min(...ofRanks.map(({ startMs }) => startMs)), actions };
  });
  const own = steps.map(({ startMs, actions }) => {
    const busyMs = actions.reduce((sum, { durationMs }) => sum + durationMs, 0);
    const lastMs = Math.max(...actions.map((each) => each.startMs + each.durationMs));
    const firstMs = Math.min(...actions.map((each) => each.startMs));
    return {
      actionsMs: busyMs,
      passMs: lastMs - startMs,
      bubble: 1 - busyMs / (schedule.ranks * (lastMs - firstMs)),
    };
  });
  const times = timesOf(steps.flatMap(({ actions }) => actions));
  const simulation = dist.schedules.simulateSchedule(schedule, {
    ...costsOf(schedule, times),
    link: { latencyMs },
  });
  return {
    actionsMs: mean(own.map(({ actionsMs }) => actionsMs)),
    passMs: mean(own.map(({ passMs }) => passMs)),
    makespanMs: simulation.makespanMs,
    bubble: mean(own.map(({ bubble }) => bubble)),
    simulatedBubble: simulation.bubble,
    actionMs: Object.fromEntries(times),
  };
}

function timesOf(actions: readonly OwnAction[]): ReadonlyMap<string, number> {
  const groups = Map.groupBy(actions, ({ action }) => keyOf(action.kind, action.stage));
  return new Map(
    [...groups].map(([key, of]) => [key, mean(of.map(({ durationMs }) => durationMs))]),
  );
}

function costsOf(
  { stages }: dist.schedules.Schedule,
  times: ReadonlyMap<string, number>,
): dist.schedules.ScheduleCosts {
  const ms = (kind: dist.schedules.ComputeAction['kind'], stage: number): number =>
    times.get(keyOf(kind, stage)) ?? 0;
  return {
    stages: Array.from({ length: stages }, (_, stage) => ({
      forwardMs: ms('forward', stage),
      backwardMs: ms('backward', stage),
      inputGradientMs: ms('inputGradient', stage),
      weightGradientMs: ms('weightGradient', stage),
    })),
  };
}

/** Returns an action's name without its microbatch, such as `0F`. */
function keyOf(kind: dist.schedules.ComputeAction['kind'], stage: number): string {
  return dist.schedules.formatAction({ kind, stage, microbatch: 0 }).slice(0, -1);
}

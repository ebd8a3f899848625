import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { formatAction } from '../actions/action-text.ts';
import type { ComputeAction, ScheduledAction } from '../actions/action.ts';
import {
  amount,
  chainEdges,
  computationsOf,
  range,
  type Schedule,
  type StageEdge,
} from '../actions/schedule.ts';
import { describeBlocked } from './blocked-rank.ts';
import { dependenciesOf } from './dependencies.ts';
import { scheduleError } from './schedule-error.ts';
import { sweepSchedule } from './sweep-schedule.ts';

/**
 * Throws ConfigError if ranks cannot run the schedule. Each rank must have a stage, and each stage must have
 * one rank. Each stage must do each microbatch's forward and backward once; the backward may be one action, or
 * the input gradient and then the weight gradient. No ranks may wait for each other. The error names the rank,
 * its action, and what this action waits for.
 */
export function checkSchedule(
  schedule: Schedule,
  edges: readonly StageEdge[] = chainEdges(schedule.stages),
): void {
  checkPlacement(schedule);
  checkLength(schedule);
  checkEdges(schedule, edges);
  checkOrderOfStages(schedule);
  const blocked = sweepSchedule(schedule, dependenciesOf(edges, schedule.stages));
  if (blocked.length === 0) return;
  throw scheduleError(
    schedule,
    `no rank can go on: ${describeBlocked(blocked)}`,
    'Move the action that others wait for before the waiting action of its own rank',
    { blocked },
  );
}

function checkPlacement(schedule: Schedule): void {
  const { ranks, stages, microbatches, rankOfStage, actions } = schedule;
  for (const [what, number] of Object.entries({ ranks, stages, microbatches })) {
    if (Number.isSafeInteger(number) && number > 0) continue;
    throw scheduleError(schedule, `${number} ${what}`, 'Give a whole number from 1');
  }
  if (rankOfStage.length !== stages) {
    throw scheduleError(
      schedule,
      `ranks of ${rankOfStage.length} stages`,
      `Give the rank of each of the ${stages} stages`,
    );
  }
  if (actions.length !== ranks) {
    throw scheduleError(
      schedule,
      `actions of ${actions.length} ranks`,
      `Give the actions of each of the ${ranks} ranks`,
    );
  }
  for (const [stage, rank] of rankOfStage.entries()) {
    if (Number.isSafeInteger(rank) && rank >= 0 && rank < ranks) continue;
    throw scheduleError(
      schedule,
      `stage ${stage} on rank ${rank}`,
      `Put it on a rank from 0 to ${ranks - 1}`,
      { stage, rank },
    );
  }
  const used = new Set(rankOfStage);
  const idle = range(ranks).find((rank) => !used.has(rank));
  if (idle === undefined) return;
  throw scheduleError(
    schedule,
    `rank ${idle} without a stage`,
    'Give each rank a stage, or take fewer ranks',
    { rank: idle },
  );
}

/**
 * Throws if there are too few actions for all stages and microbatches. This comes first, so that nothing is allocated
 * for their numbers.
 */
function checkLength(schedule: Schedule): void {
  const { stages, microbatches, actions } = schedule;
  const computations = actions.reduce(
    (sum, own) => sum + own.reduce((all, action) => all + computationsOf(action).length, 0),
    0,
  );
  const needed = stages * microbatches;
  if (computations >= needed) return;
  throw scheduleError(
    schedule,
    `${computations} actions, and the forwards alone are ${needed}`,
    'Let each stage do each microbatch once',
  );
}

/** `gradient` is required, because an edge without it would count as one over which no gradient travels back. */
const edgeRules: OptionRules<StageEdge> = {
  from: option.required(option.integer(0)),
  to: option.required(option.integer(0)),
  gradient: option.required(option.flag),
  bytes: amount,
};

function checkEdges(schedule: Schedule, edges: readonly StageEdge[]): void {
  const seen = new Set<string>();
  for (const given of edges) {
    checkOptions('an edge between stages', given, edgeRules);
    const { from, to } = given;
    const edge = `${from} → ${to}`;
    const isInRange = from < to && to < schedule.stages;
    if (!isInRange) {
      throw scheduleError(
        schedule,
        `an edge ${edge}`,
        `Let edges go from a stage to a later one, up to ${schedule.stages - 1}`,
        { from, to },
      );
    }
    if (seen.has(edge)) {
      throw scheduleError(schedule, `two edges ${edge}`, 'Give one, for all that crosses', {
        from,
        to,
      });
    }
    seen.add(edge);
  }
}

const scheduledKinds: ReadonlySet<string> = new Set([
  'forward',
  'backward',
  'inputGradient',
  'weightGradient',
  'overlap',
] satisfies ScheduledAction['kind'][]);

/** The computations of a stage for a microbatch that have been done. */
interface Progress {
  forward: boolean;
  input: boolean;
  weight: boolean;
}

function checkOrderOfStages(schedule: Schedule): void {
  const { stages, microbatches, forwardOnly } = schedule;
  const progress = range(stages).map(() =>
    range(microbatches).map((): Progress => ({ forward: false, input: false, weight: false })),
  );
  for (const [rank, own] of schedule.actions.entries()) {
    for (const [position, action] of own.entries()) {
      const fail = (found: string, todo: string): never => {
        const text = formatAction(action);
        throw scheduleError(
          schedule,
          `rank ${rank} at action ${position}, ${text}: ${found}`,
          todo,
          { rank, position, action: text },
        );
      };
      if (!isScheduled(action)) return fail('no action of a schedule', 'Use F, B, I, W and pairs');
      checkPair(action, fail);
      for (const computation of computationsOf(action)) {
        const { stage, microbatch } = computation;
        const owner = schedule.rankOfStage[stage];
        const state = progress[stage]?.[microbatch];
        if (owner === undefined) return fail(`no stage ${stage}`, `Use stages 0 to ${stages - 1}`);
        if (state === undefined)
          return fail(`no microbatch ${microbatch}`, `Use microbatches 0 to ${microbatches - 1}`);
        if (owner !== rank)
          return fail(`stage ${stage} is on rank ${owner}`, 'Let one rank do all of a stage');
        if (forwardOnly && computation.kind !== 'forward')
          return fail('a backward where there are forwards only', 'Leave it out');
        advance(state, computation, fail);
      }
    }
  }
  for (const [stage, states] of progress.entries()) {
    const rank = schedule.rankOfStage[stage] ?? 0;
    for (const [microbatch, state] of states.entries()) {
      const missing = missingKind(state, forwardOnly);
      if (missing === undefined) continue;
      const text = formatAction({ kind: missing, stage, microbatch });
      throw scheduleError(
        schedule,
        `no ${text} on rank ${rank}`,
        'Let each stage do each microbatch once',
        { rank, action: text },
      );
    }
  }
}

/** Schedules may come from JSON, and lowered schedules look like them, so the kind must be checked at run time. */
function isScheduled({ kind }: ScheduledAction): boolean {
  return scheduledKinds.has(kind);
}

function checkPair(action: ScheduledAction, fail: (found: string, todo: string) => never): void {
  if (action.kind !== 'overlap') return;
  const [first, second] = action.actions;
  const kinds = [first.kind, second.kind];
  if (kinds.filter((kind) => kind === 'forward').length !== 1 || kinds.includes('weightGradient')) {
    fail('a pair that is no forward beside a backward', 'Write the two one by one');
  }
}

/** Notes a computation. Fails if its stage cannot do it yet, or has done it before. */
function advance(
  state: Progress,
  { kind, stage, microbatch }: ComputeAction,
  fail: (found: string, todo: string) => never,
): void {
  const text = (other: ComputeAction['kind']): string =>
    formatAction({ kind: other, stage, microbatch });
  const needs = kind === 'weightGradient' ? 'input' : 'forward';
  if (kind !== 'forward' && !state[needs]) {
    const before = text(needs === 'input' ? 'inputGradient' : 'forward');
    fail(`it comes before ${before}, for which it waits`, `Put ${before} first`);
  }
  const makes = kind === 'weightGradient' ? 'weight' : kind === 'forward' ? 'forward' : 'input';
  if (state[makes] || (kind === 'backward' && state.weight)) {
    fail('it was done before, alone or as a part of a whole backward', 'Leave one of them out');
  }
  state[makes] = true;
  if (kind === 'backward') state.weight = true;
}

function missingKind(state: Progress, forwardOnly: boolean): ComputeAction['kind'] | undefined {
  if (!state.forward) return 'forward';
  if (forwardOnly) return undefined;
  if (!state.input) return 'backward';
  return state.weight ? undefined : 'weightGradient';
}

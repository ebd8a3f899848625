import type { ConfigError } from '@shardwise/core/extend';
import { isSend, isStageAction, isTransfer, otherEnd } from '../actions/action-kinds.ts';
import { formatAction } from '../actions/action-text.ts';
import type { Action, ScheduledAction, TransferAction } from '../actions/action.ts';
import { computationsOf, type LoweredSchedule } from '../actions/schedule.ts';
import { describeBlocked } from './blocked-rank.ts';
import { checkSchedule } from './check-schedule.ts';
import { dryRun } from './dry-run.ts';
import { scheduleError } from './schedule-error.ts';

/**
 * Throws ConfigError if ranks cannot execute the schedule. It checks that the computations are a schedule, and
 * that each message belongs to an edge between two ranks and occurs once at either end, after the action that
 * makes it and before the action that needs it. Parameters must be there when they are used, gradients must be
 * reduced when they are complete, and no ranks may wait for each other. The error names the rank, its action,
 * and what this action waits for.
 */
export function checkLoweredSchedule(lowered: LoweredSchedule): void {
  checkSchedule({ ...lowered, actions: lowered.actions.map(scheduledOf) }, lowered.edges);
  const places = new Map<string, { rank: number; position: number; action: TransferAction }>();
  for (const [rank, own] of lowered.actions.entries()) {
    checkStageActions(lowered, rank, (position, action, found, todo) => {
      throw actionError(lowered, rank, position, action, found, todo);
    });
    const made = new Set<string>();
    for (const [position, action] of own.entries()) {
      const text = formatAction(action);
      const fail = (found: string, todo: string): never => {
        throw actionError(lowered, rank, position, action, found, todo);
      };
      for (const name of resultsOf(action)) made.add(name);
      if ('stage' in action && lowered.rankOfStage[action.stage] !== rank) {
        fail(`stage ${action.stage} is not of this rank`, 'Let the rank of the stage do it');
      }
      if (!isTransfer(action)) continue;
      checkEdge(lowered, action, fail);
      if (places.has(text)) fail('the message stands here twice', 'Leave one of them out');
      places.set(text, { rank, position, action });
      const isEarly = isSend(action.kind) && !made.has(resultName(action));
      if (isEarly) fail('it sends what comes later', 'Put it behind what makes it');
    }
  }
  for (const { rank, position, action } of places.values()) {
    const other = formatAction(otherEnd(action));
    if (places.has(other)) continue;
    const text = formatAction(action);
    throw scheduleError(
      lowered,
      `rank ${rank} at action ${position}, ${text}: rank ${lowered.rankOfStage[action.peer]} has no ${other}`,
      `Add ${other}`,
      { rank, position, action: text, waitsFor: other },
    );
  }
  const { blocked } = dryRun(lowered);
  if (blocked.length === 0) return;
  throw scheduleError(
    lowered,
    `no rank can go on: ${describeBlocked(blocked)}`,
    'Move the action that others wait for before the waiting action of its own rank',
    { blocked },
  );
}

function actionError(
  lowered: LoweredSchedule,
  rank: number,
  position: number,
  action: Action,
  found: string,
  todo: string,
): ConfigError {
  const text = formatAction(action);
  const place = `rank ${rank} at action ${position}, ${text}`;
  return scheduleError(lowered, `${place}: ${found}`, todo, { rank, position, action: text });
}

function scheduledOf(actions: readonly Action[]): ScheduledAction[] {
  return actions.flatMap((action) => (isTransfer(action) || isStageAction(action) ? [] : [action]));
}

function checkEdge(
  { edges, rankOfStage }: LoweredSchedule,
  { kind, stage, peer }: TransferAction,
  fail: (found: string, todo: string) => never,
): void {
  const isOutward = kind === 'sendActivation' || kind === 'receiveGradient';
  const [from, to] = isOutward ? [stage, peer] : [peer, stage];
  const edge = edges.find((each) => each.from === from && each.to === to);
  if (edge === undefined)
    return fail(`no edge from stage ${from} to stage ${to}`, 'Name it in the edges');
  if (!edge.gradient && kind.endsWith('Gradient')) {
    fail(`no gradient comes back from stage ${to} to stage ${from}`, 'Leave it out');
  }
  if (rankOfStage[stage] === rankOfStage[peer]) {
    fail(`stages ${stage} and ${peer} are of one rank`, 'Leave it out: the rank has what it needs');
  }
}

/** Returns names for the results that an action makes. */
function resultsOf(action: Action): string[] {
  if (isTransfer(action) || isStageAction(action)) return [];
  const computations = action.kind === 'overlap' ? action.actions : [action];
  return computations.map(
    ({ kind, stage, microbatch }) =>
      `${kind === 'forward' ? 'activation' : kind === 'weightGradient' ? 'weights' : 'gradient'} ${stage} ${microbatch}`,
  );
}

function resultName({ kind, stage, microbatch }: TransferAction): string {
  return `${kind === 'sendActivation' ? 'activation' : 'gradient'} ${stage} ${microbatch}`;
}

/** Called with the fault of an action of a rank. */
type Fail = (position: number, action: Action, found: string, todo: string) => never;

/**
 * Checks the actions on whole stages. If a rank gathers parameters at all, they must be there when they are used.
 * Gradients must be reduced once, after the last action that adds to them.
 */
function checkStageActions(lowered: LoweredSchedule, rank: number, fail: Fail): void {
  const actions = lowered.actions[rank] ?? [];
  const gathers = actions.some(({ kind }) => kind === 'unshard' || kind === 'reshard');
  const active = new Set<number>();
  const reduced = new Set<number>();
  for (const [position, action] of actions.entries()) {
    for (const { kind, stage } of computationsOf(action)) {
      if (gathers && !active.has(stage)) {
        const text = formatAction({ kind: 'unshard', stage });
        fail(
          position,
          action,
          `the parameters of stage ${stage} are not there`,
          `Put ${text} first`,
        );
      }
      if (reduced.has(stage) && kind !== 'forward' && kind !== 'inputGradient') {
        fail(position, action, 'it adds to gradients that were reduced', 'Reduce them behind it');
      }
    }
    if (action.kind === 'unshard') {
      if (active.has(action.stage))
        fail(position, action, 'they are there already', 'Leave it out');
      active.add(action.stage);
    } else if (action.kind === 'reshard') {
      if (!active.delete(action.stage))
        fail(position, action, 'they are not there', 'Leave it out');
    } else if (action.kind === 'reduceGradient') {
      if (reduced.has(action.stage)) fail(position, action, 'it was done before', 'Leave it out');
      reduced.add(action.stage);
    }
  }
}

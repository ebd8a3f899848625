import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import { isStageAction, isTransfer } from '../actions/action-kinds.ts';
import { formatAction, parseAction } from '../actions/action-text.ts';
import type { Action, ScheduledAction } from '../actions/action.ts';
import {
  chainEdges,
  computationsOf,
  type LoweredSchedule,
  range,
  type Schedule,
  type StageEdge,
} from '../actions/schedule.ts';
import { checkLoweredSchedule } from '../check/check-lowered-schedule.ts';
import { checkSchedule } from '../check/check-schedule.ts';

/** Options of `readSchedule` and `readLoweredSchedule`. */
export interface ReadScheduleOptions {
  /** The name in errors and drawings. Default: 'from text'. */
  readonly name?: string;
}

const readRules: OptionRules<ReadScheduleOptions> = { name: option.nonEmptyText };

const MAX_CHARACTERS = 2 ** 24;
const MAX_RANKS = 4096;

/**
 * Reads a schedule in PyTorch's text format: a row for each rank, cells between commas, and empty cells for
 * waiting. A stage belongs to the rank whose row contains it. The numbers of stages and microbatches are the
 * largest that occur.
 *
 * Throws ConfigError for a cell that is not a computation, with its row and cell counted from 1, and for a
 * schedule that ranks cannot run.
 */
export function readSchedule(text: string, options: ReadScheduleOptions = {}): Schedule {
  const { actions, ...rest } = parseRows(text, options);
  const computing = actions.map((own, row) =>
    own.map(({ cell, action }): ScheduledAction => {
      if (!isTransfer(action) && !isStageAction(action)) return action;
      throw cellError(
        row,
        cell,
        formatAction(action),
        'an action that is added when a schedule is lowered',
        'Leave it out, or use readLoweredSchedule',
      );
    }),
  );
  const schedule: Schedule = { ...rest, actions: computing };
  checkSchedule(schedule);
  return schedule;
}

/**
 * Reads a lowered schedule, as readSchedule does. The edges are those of the messages, and those between consecutive
 * stages of one rank. Cells that only wait in PyTorch (`0WAIT_SEND_F0`, `0WAIT_REDUCE_GRAD`) are left out.
 */
export function readLoweredSchedule(
  text: string,
  options: ReadScheduleOptions = {},
): LoweredSchedule {
  const { actions, ...rest } = parseRows(text, options);
  const lists = actions.map((own) => own.map(({ action }) => action));
  const edges = new Map<string, StageEdge>();
  const add = (edge: StageEdge): void => {
    const key = `${edge.from} ${edge.to}`;
    const gradient = edge.gradient || edges.get(key)?.gradient === true;
    edges.set(key, { ...edge, gradient });
  };
  for (const edge of chainEdges(rest.stages)) {
    if (rest.rankOfStage[edge.from] === rest.rankOfStage[edge.to]) add(edge);
  }
  for (const { kind, stage, peer } of lists.flat().filter(isTransfer)) {
    const gradient = kind === 'sendGradient' || kind === 'receiveGradient';
    add({ from: Math.min(stage, peer), to: Math.max(stage, peer), gradient });
  }
  const lowered: LoweredSchedule = {
    ...rest,
    edges: [...edges.values()].sort((a, b) => a.from - b.from || a.to - b.to),
    actions: lists,
  };
  checkLoweredSchedule(lowered);
  return lowered;
}

/** Writes the rows of cells that `readSchedule` reads, or `readLoweredSchedule` for a lowered schedule. */
export function writeSchedule(schedule: Schedule | LoweredSchedule): string {
  const rows: readonly (readonly Action[])[] = schedule.actions;
  return rows.map((own) => `${own.map(formatAction).join(',')}\n`).join('');
}

interface Parsed extends Omit<Schedule, 'actions'> {
  readonly actions: readonly (readonly { readonly cell: number; readonly action: Action }[])[];
}

const onlyWaits = /^\d{1,6}WAIT_(?:SEND_[FB]\d{1,6}|REDUCE_GRAD)$/;

function parseRows(text: string, options: ReadScheduleOptions): Parsed {
  checkOptions('a schedule from text', options, readRules);
  if (typeof text !== 'string' || text.length > MAX_CHARACTERS) {
    throw textError('no text, or one of more than 16 MiB', 'Give rows of actions');
  }
  const rows = text.replace(/\r?\n$/, '').split(/\r?\n/);
  if (rows.length > MAX_RANKS) {
    throw textError(`${rows.length} rows`, `Give ${MAX_RANKS} rows at most, one for each rank`);
  }
  const rankOfStage = new Map<number, number>();
  let [stages, microbatches, hasBackwards] = [0, 0, false];
  const actions = rows.map((row, rank) =>
    row.split(',').flatMap((cellText, cell) => {
      if (cellText.trim() === '' || onlyWaits.test(cellText.trim())) return [];
      const action = parseAction(cellText);
      if ('problem' in action) {
        throw cellError(rank, cell, cellText, action.problem, 'Write actions as 2F0, 1B3 or 0W2');
      }
      for (const { kind, stage, microbatch } of computationsOf(action)) {
        stages = Math.max(stages, stage + 1);
        microbatches = Math.max(microbatches, microbatch + 1);
        hasBackwards ||= kind !== 'forward';
        if (!rankOfStage.has(stage)) rankOfStage.set(stage, rank);
      }
      return [{ cell, action }];
    }),
  );
  if (stages === 0) throw textError('no action', 'Write a row for each rank');
  if (stages > rankOfStage.size) {
    const missing = range(stages).find((stage) => !rankOfStage.has(stage));
    throw textError(
      `no row with stage ${missing}, but one with stage ${stages - 1}`,
      'Use all stages from 0',
    );
  }
  return {
    name: options.name ?? 'from text',
    ranks: rows.length,
    stages,
    microbatches,
    forwardOnly: !hasBackwards,
    rankOfStage: range(stages).map((stage) => rankOfStage.get(stage) ?? 0),
    actions,
  };
}

function cellError(
  row: number,
  cell: number,
  text: string,
  found: string,
  todo: string,
): ConfigError {
  const shown = text.trim().slice(0, 40);
  return new ConfigError(
    { asked: `a schedule from text, row ${row + 1}, cell ${cell + 1}, '${shown}'`, found, todo },
    { row: row + 1, cell: cell + 1, text: shown },
  );
}

function textError(found: string, todo: string): ConfigError {
  return new ConfigError({ asked: 'a schedule from text', found, todo });
}

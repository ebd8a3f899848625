import { computeLetters } from '../actions/action-text.ts';
import type { ComputeAction, ComputeKind } from '../actions/action.ts';
import { computationsOf, type Schedule, stagesOfRank } from '../actions/schedule.ts';
import type { TimedAction } from '../simulation/simulate-schedule.ts';

/**
 * The contents of a drawing of a schedule: rows of ranks on one clock, as simulated and, if times are given, as
 * measured.
 */
export interface SchedulePicture {
  readonly title: string;
  readonly panels: readonly SchedulePanel[];
  /** The time at which the clock ends. */
  readonly endMs: number;
}

export interface SchedulePanel {
  /** What the times are, such as 'simulated: 27 ms, bubble 11.1 %'. */
  readonly heading: string;
  readonly rows: readonly PictureRow[];
}

export interface PictureRow {
  readonly label: string;
  /** The text after the row, which may be empty. */
  readonly note: string;
  readonly cells: readonly PictureCell[];
}

export interface PictureCell {
  readonly startMs: number;
  readonly endMs: number;
  /** One part, or the two parts of a pair. */
  readonly parts: readonly CellPart[];
}

export interface CellPart {
  readonly kind: ComputeKind;
  /** The label `F0`, or with its stage `4F0` if the rank has several. */
  readonly label: string;
  /** The labels for less room: first without the stage, then without the microbatch. */
  readonly shortLabels: readonly string[];
  /** The place of the stage among the stages of its rank. */
  readonly localStage: number;
}

export const kindNames: Readonly<Record<ComputeKind, string>> = {
  forward: 'forward',
  backward: 'backward',
  inputGradient: 'input gradient',
  weightGradient: 'weight gradient',
};

/** Returns the rows of all ranks. `noteOf` returns the text after each row. */
export function rowsOf(
  schedule: Schedule,
  timed: readonly (readonly TimedAction[])[],
  noteOf: (rank: number) => string,
): PictureRow[] {
  return timed.map((own, rank) => {
    const stages = stagesOfRank(schedule, rank);
    const partOf = ({ kind, stage, microbatch }: ComputeAction): CellPart => ({
      kind,
      label: `${stages.length > 1 ? stage : ''}${computeLetters[kind]}${microbatch}`,
      shortLabels: [`${computeLetters[kind]}${microbatch}`, computeLetters[kind]],
      localStage: stages.indexOf(stage),
    });
    return {
      label: `rank ${rank}`,
      note: noteOf(rank),
      cells: own.map(({ action, startMs, endMs }) => ({
        startMs,
        endMs,
        parts: computationsOf(action).map(partOf),
      })),
    };
  });
}

/** Writes a number with at most three decimals. */
export function formatNumber(value: number): string {
  return String(Number(value.toFixed(3)));
}

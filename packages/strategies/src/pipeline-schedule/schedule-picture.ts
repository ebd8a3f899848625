import type { ComputeAction, ComputeKind } from './action.ts';
import { computeLetters } from './action-text.ts';
import { computationsOf, type Schedule, stagesOfRank } from './schedule.ts';
import type { TimedAction } from './simulate-schedule.ts';

/** What is drawn of a schedule: rows of ranks on one clock, simulated ones and, where there are, measured ones. */
export interface SchedulePicture {
  readonly title: string;
  readonly panels: readonly SchedulePanel[];
  /** Where the clock ends. */
  readonly endMs: number;
}

export interface SchedulePanel {
  /** What the times are, as in 'simulated: 27 ms, bubble 11.1 %'. */
  readonly heading: string;
  readonly rows: readonly PictureRow[];
}

export interface PictureRow {
  readonly label: string;
  /** Behind the row; may be empty. */
  readonly note: string;
  readonly cells: readonly PictureCell[];
}

export interface PictureCell {
  readonly startMs: number;
  readonly endMs: number;
  /** One, or the two of a pair. */
  readonly parts: readonly CellPart[];
}

export interface CellPart {
  readonly kind: ComputeKind;
  /** `F0`, or with its stage, `4F0`, where the rank has several. */
  readonly label: string;
  /** What of it is drawn where there is little room: without the stage, then without the microbatch. */
  readonly shortLabels: readonly string[];
  /** Which of its rank's stages. */
  readonly localStage: number;
}

export const kindNames: Readonly<Record<ComputeKind, string>> = {
  forward: 'forward',
  backward: 'backward',
  inputGradient: 'input gradient',
  weightGradient: 'weight gradient',
};

/** The rows of all ranks; `noteOf` says what stands behind each. */
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

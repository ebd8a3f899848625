import { mergeSummaries, type StepSummary } from './summary.ts';

/** A whole run in a limited number of points. Each point covers at most `stride` steps. */
export interface History {
  readonly points: readonly StepSummary[];
  readonly stride: number;
}

const MAX_POINTS = 2048;

export const emptyHistory: History = { points: [], stride: 1 };

/** Appends a step. Each step has a point of its own until there are more than 2048. Then neighbours are averaged. */
export function appendStep(history: History, summary: StepSummary): History {
  const { points, stride } = history;
  const last = points.at(-1);
  const points2 =
    last !== undefined && last.steps < stride
      ? [...points.slice(0, -1), mergeSummaries(last, summary)]
      : [...points, summary];
  if (points2.length <= MAX_POINTS) return { points: points2, stride };
  const halved: StepSummary[] = [];
  for (let index = 0; index < points2.length; index += 2) {
    const [first, second] = points2.slice(index, index + 2);
    if (first !== undefined) halved.push(second ? mergeSummaries(first, second) : first);
  }
  return { points: halved, stride: stride * 2 };
}

/** Returns the history without the points that reach to `step` or beyond it. */
export function dropFrom({ points, stride }: History, step: number): History {
  return { points: points.filter((point) => point.step < step), stride };
}

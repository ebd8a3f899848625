import {
  compareStep,
  comparisonRows,
  comparisonText,
  type PlannedStep,
  ranksOf,
} from '@shardwise/planner';
import type { ComparedRun } from '../report/compared-card.ts';
import { median } from '../run-state/median.ts';
import type { RunState } from '../run-state/run-state.ts';
import type { StepSummary } from '../run-state/summary.ts';
import { measuredTerms } from './measured-terms.ts';

/** How a run stands to its plan, for the page, and as text for the terminal. */
export type RunComparison = ComparedRun & { readonly text: string };

/**
 * Puts the median step of a run beside its plan. The first step is left out, because it compiles. Returns why nothing
 * can be compared instead, if it can't.
 */
export function compareRun(planned: PlannedStep, state: RunState): RunComparison {
  const { head, history } = state;
  const ranks = ranksOf(planned.layout);
  const points = history.points.length > 1 ? history.points.slice(1) : [];
  const stepMs = median(points.map((point) => point.stepMs));
  const peaks = points.flatMap(({ memory }) => memory?.peakBytes ?? []);
  if (ranks !== head.worldSize) {
    return onlyWords(`The plan is for ${ranks} ranks, and this run had ${head.worldSize}.`);
  }
  if (stepMs === undefined || stepMs === 0) {
    return onlyWords('The run reported too few steps to be compared with its plan.');
  }
  const seconds = (pick: (point: StepSummary) => number): number =>
    (median(points.map(pick)) ?? 0) / 1000;
  const comparison = compareStep(planned, {
    stepSeconds: stepMs / 1000,
    computeSeconds: seconds(({ computeMs }) => computeMs),
    communicationSeconds: seconds(({ communicationMs }) => communicationMs),
    dataSeconds: seconds(({ dataMs }) => dataMs),
    programSeconds: seconds(({ graphMs }) => graphMs),
    terms: measuredTerms(state, stepMs),
    ...(peaks.length === 0 ? {} : { peakBytes: Math.max(...peaks) }),
  });
  return {
    rows: comparisonRows(comparison),
    cause: comparison.cause,
    text: comparisonText(comparison),
  };
}

function onlyWords(cause: string): RunComparison {
  return { rows: [], cause, text: cause };
}

import { chartOf, figureOf } from '../run-state/named-metrics.ts';
import type { StepSummary } from '../run-state/summary.ts';
import { formatMetric } from '../text/format.ts';
import { type Card, HALF, lineCard } from './card.ts';
import { rankColour } from './colours.ts';
import type { LineSeries } from './line-chart.ts';

/**
 * Returns a chart for each of the script's own metrics. Metrics whose names agree up to the last slash share a chart.
 */
export function metricCards(
  points: readonly StepSummary[],
  steps: readonly number[],
): readonly (Card | undefined)[] {
  const names = [...new Set(points.flatMap(({ metrics }) => Object.keys(metrics)))];
  return [...Map.groupBy(names, chartOf)].map(([title, ofChart]) =>
    lineCard(
      title,
      HALF,
      steps,
      ofChart.map((name, index) => seriesOf(points, name, nameIn(title, name), index)),
      { format: formatMetric, fromZero: false },
    ),
  );
}

function nameIn(title: string, name: string): string {
  return name === title ? name : name.slice(title.length + 1);
}

/** Returns the series of a metric. A metric that fewer than half of the steps have is shown as dots. */
function seriesOf(
  points: readonly StepSummary[],
  metric: string,
  name: string,
  index: number,
): LineSeries {
  const values = points.map(({ metrics }) => figureOf(metrics, metric));
  const isRare = values.filter((value) => value !== undefined).length < values.length / 2;
  return {
    name,
    colour: rankColour(index),
    values,
    ...(isRare ? { dots: true } : { smooth: true }),
  };
}

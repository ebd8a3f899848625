import type { RunState } from '../run-state/run-state.ts';
import { mergeSummaries, otherMs, type StepSummary } from '../run-state/summary.ts';
import { formatBytes, formatCount, formatLoss, formatMilliseconds } from '../text/format.ts';
import { areaChart } from './area-chart.ts';
import { type Card, drawCard, HALF, lineCard, WIDE } from './card.ts';
import { colours, rankColour } from './colours.ts';
import type { LineSeries } from './line-chart.ts';
import { metricCards } from './metric-cards.ts';
import { simulatedStages, type SimulatedStages } from './simulated-stages.ts';
import { representativeStep, timelineChart } from './timeline-chart.ts';

/** The greatest number of points of a chart. More points than pixels would show nothing more. */
const MAX_POINTS = 700;

/** Returns the report's charts, each in its card. Charts without data are left out. */
export function chartCards(state: RunState): readonly string[] {
  const points = thin(state.history.points);
  const steps = points.map(({ step }) => step);
  return [
    lossCard(points, steps),
    ...metricCards(points, steps),
    speedCard(points, steps),
    timeCard(points, steps),
    memoryCard(points, steps, state.head.worldSize),
    memoryKindsCard(points, steps),
    learningRateCard(points, steps),
    timelineCard(state),
  ]
    .filter((card) => card !== undefined)
    .map(drawCard);
}

function lossCard(points: readonly StepSummary[], steps: readonly number[]): Card | undefined {
  const series: readonly LineSeries[] = [
    { name: 'train', colour: colours.train, values: points.map(({ loss }) => loss), smooth: true },
    {
      name: 'validation',
      colour: colours.validation,
      values: points.map(({ validationLoss }) => validationLoss),
      dots: true,
    },
  ];
  return lineCard('Loss', WIDE, steps, series, { format: formatLoss, fromZero: false });
}

function speedCard(points: readonly StepSummary[], steps: readonly number[]): Card | undefined {
  const values = points.map(({ tokens, stepMs }) =>
    tokens > 0 && stepMs > 0 ? (1000 * tokens) / stepMs : undefined,
  );
  const series: LineSeries = {
    name: 'tokens per second',
    colour: colours.speed,
    values,
    smooth: true,
  };
  return lineCard('Throughput', HALF, steps, [series], { format: formatCount });
}

function timeCard(points: readonly StepSummary[], steps: readonly number[]): Card {
  const layers = [
    { name: 'compute', values: points.map(({ computeMs }) => computeMs) },
    { name: 'communication', values: points.map(({ communicationMs }) => communicationMs) },
    { name: 'data', values: points.map(({ dataMs }) => dataMs) },
    { name: 'graph', values: points.map(({ graphMs }) => graphMs) },
    { name: 'other', values: points.map(otherMs) },
  ] as const;
  const usualMs = points.toSorted((a, b) => a.stepMs - b.stepMs)[points.length >> 1]?.stepMs ?? 0;
  const [unit, unitMs] = usualMs >= 1000 ? ['s', 1000] : ['ms', 1];
  const coloured = layers.map(({ name, values }) => ({
    name,
    colour: colours[name],
    values: values.map((ms) => ms / unitMs),
  }));
  const chart = areaChart({
    size: HALF,
    label: 'Step time',
    steps,
    layers: coloured,
    format: (value) => formatMilliseconds(value * unitMs),
    unit,
  });
  return { title: 'Step time', wide: false, legend: coloured, chart };
}

function memoryCard(
  points: readonly StepSummary[],
  steps: readonly number[],
  worldSize: number,
): Card | undefined {
  const all = points.flatMap(({ memoryBytes }) => memoryBytes.map((bytes = 0) => bytes));
  const [unit, unitBytes] = unitOf(Math.max(...all));
  const series = Array.from({ length: worldSize }, (_, rank): LineSeries => ({
    name: `rank ${rank}`,
    colour: rankColour(rank),
    values: points.map(({ memoryBytes }) => {
      const bytes = memoryBytes[rank];
      return bytes === undefined ? undefined : bytes / unitBytes;
    }),
  }));
  return lineCard('Memory of tensors per rank', HALF, steps, series, {
    format: (value) => formatBytes(value * unitBytes),
    unit,
  });
}

/** Returns a card with the memory of one rank, in layers by kind. */
function memoryKindsCard(
  points: readonly StepSummary[],
  steps: readonly number[],
): Card | undefined {
  const all = points.map(({ memory }) => memory);
  if (all.every((memory) => memory === undefined)) return undefined;
  const [unit, unitBytes] = unitOf(Math.max(...all.map((memory) => memory?.bytesInUse ?? 0)));
  const layers = [
    { name: 'parameters', colour: colours.compute, pick: 'parameterBytes' },
    { name: 'gradients', colour: colours.communication, pick: 'gradientBytes' },
    { name: 'optimizer', colour: colours.data, pick: 'optimizerBytes' },
    { name: 'buffers', colour: colours.graph, pick: 'bufferBytes' },
    { name: 'other', colour: colours.other, pick: 'otherBytes' },
  ] as const;
  const filled = layers.map(({ name, colour, pick }) => ({
    name,
    colour,
    values: all.map((memory) => (memory?.[pick] ?? 0) / unitBytes),
  }));
  const chart = areaChart({
    size: HALF,
    label: 'What memory holds',
    steps,
    layers: filled,
    format: (value) => formatBytes(value * unitBytes),
    unit,
  });
  return { title: 'What the memory of a rank holds', wide: false, legend: filled, chart };
}

/** Returns the unit of a chart's axis, and the number of bytes in one unit. */
function unitOf(mostBytes: number): readonly [unit: string, unitBytes: number] {
  return mostBytes >= 2 ** 30 ? ['GiB', 2 ** 30] : ['MiB', 2 ** 20];
}

function learningRateCard(
  points: readonly StepSummary[],
  steps: readonly number[],
): Card | undefined {
  const values = points.map(({ learningRate }) => learningRate);
  const series: LineSeries = { name: 'learning rate', colour: colours.graph, values };
  return lineCard('Learning rate', HALF, steps, [series], {
    format: (value) => value.toPrecision(3),
  });
}

function timelineCard({ timelines, head, recent }: RunState): Card | undefined {
  const ofStep = representativeStep(timelines, head.worldSize, recent?.stepMs ?? 0);
  const [first] = ofStep;
  if (first === undefined || ofStep.every(({ events }) => events.length === 0)) return undefined;
  const simulated = simulatedStages(ofStep);
  const hasStages = ofStep.some(({ events }) =>
    events.some(({ category }) => category === 'stage'),
  );
  const legend = [
    { name: 'compute', colour: colours.compute },
    { name: 'collective', colour: colours.communication },
    { name: 'data', colour: colours.data },
    { name: 'graph', colour: colours.graph },
    ...(hasStages
      ? [
          { name: 'forward of a stage', colour: colours.stage },
          { name: 'backward (B), input gradients (I)', colour: colours.inputGradient },
          { name: 'weight gradients (W)', colour: colours.weightGradient },
        ]
      : []),
  ];
  return {
    title: `Timeline of step ${first.step}`,
    wide: true,
    legend,
    chart: timelineChart(ofStep, simulated),
    note: ['All ranks on one clock. Point at a box for its name, duration and size.']
      .concat(simulated === null ? [] : describeSimulation(simulated))
      .join(' '),
  };
}

function describeSimulation({ bubble, simulatedBubble }: SimulatedStages): string {
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
  return `Simulated: the same actions with their mean times and messages that take none. Ranks waited ${percent(bubble)} of the time from the first action to the last, simulated ${percent(simulatedBubble)}.`;
}

/** Averages neighbouring steps until there are at most MAX_POINTS. */
function thin(points: readonly StepSummary[]): readonly StepSummary[] {
  const share = Math.ceil(points.length / MAX_POINTS);
  if (share <= 1) return points;
  return Array.from({ length: Math.ceil(points.length / share) }, (_, index) =>
    points.slice(index * share, (index + 1) * share),
  ).flatMap(([first, ...rest]) => (first ? [rest.reduce(mergeSummaries, first)] : []));
}

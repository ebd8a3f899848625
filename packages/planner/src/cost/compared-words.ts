import { textTable } from '@shardwise/strategies';
import type {
  ComparedFigure,
  ComparedTerm,
  FigureName,
  MeasurableTerm,
  StepComparison,
} from './comparison.ts';
import { stepTermNames } from './step-time.ts';

/** Figures that differ by less than this are not explained. */
const CLOSE = 0.1;

/** How a part of a step is called, and what to do if it takes longer or shorter than predicted. */
interface PartWords {
  readonly name: string;
  readonly advice: string;
}

const device =
  'measure the device again (`shardwise measure`), or look for other load on it' as const;
const links = 'measure the links (`shardwise doctor --nproc`), or look for a slow one' as const;

const termWords: Readonly<Record<MeasurableTerm, PartWords>> = {
  compute: { name: stepTermNames.compute, advice: device },
  recompute: {
    name: stepTermNames.recompute,
    advice: 'look at what checkpoints and budgets of the script recompute',
  },
  optimizer: {
    name: stepTermNames.optimizer,
    advice: 'look at its update in the profile: it is bound by the bandwidth of memory',
  },
  tensorParallel: { name: stepTermNames.tensorParallel, advice: links },
  contextParallel: { name: stepTermNames.contextParallel, advice: links },
  expertParallel: {
    name: stepTermNames.expertParallel,
    advice: 'look at how many tokens each expert gets, and measure the links',
  },
  pipelineParallel: {
    name: 'pipeline: bubble and messages',
    advice: 'compare the times of the stages in the report: the slowest one has the others wait',
  },
  dataParallel: {
    name: stepTermNames.dataParallel,
    advice: 'look for a rank that comes late to its all-reduce, and measure the links',
  },
  offload: { name: stepTermNames.offload, advice: 'measure the bandwidth to where pages are' },
};

const figureWords: Readonly<Record<Exclude<FigureName, 'step' | 'memory'>, PartWords>> = {
  compute: { name: 'compute', advice: device },
  communication: { name: 'communication', advice: links },
  data: { name: 'data', advice: 'have the loader read ahead, or use more of its workers' },
  program: {
    name: 'program',
    advice: 'look for sizes or operations that differ from step to step, and so need new plans',
  },
};

/** Writes the figures of a comparison as rows of texts, with the titles of their columns in the first one. */
export function comparisonRows({ figures }: StepComparison): readonly (readonly string[])[] {
  const row = (
    name: string,
    { predicted, measured, ratio }: Omit<ComparedTerm, 'term'>,
    text: (value: number) => string,
  ): readonly string[] => [
    name,
    text(predicted),
    text(measured),
    Number.isFinite(ratio) ? `× ${ratio.toFixed(2)}` : '',
  ];
  return [
    ['', 'predicted', 'measured', ''],
    ...figures.flatMap((each) => [
      row(each.figure, each, each.figure === 'memory' ? bytesText : seconds),
      ...each.terms.map((term) => row(`· ${termWords[term.term].name}`, term, seconds)),
    ]),
  ];
}

/** Writes a comparison as a table, with the most probable cause of the largest difference. */
export function comparisonText(comparison: StepComparison): string {
  return [textTable(comparisonRows(comparison)), comparison.cause].join('\n');
}

/** A part of a step, with the words for it. */
interface Part extends PartWords {
  readonly difference: number;
}

/** Says in words whether the step takes what was predicted, and otherwise which part of it differs most. */
export function causeOf(figures: readonly ComparedFigure[]): string {
  const step = figures.find(({ figure }) => figure === 'step');
  if (step === undefined || Math.abs(step.ratio - 1) < CLOSE) {
    return 'The step takes what was predicted.';
  }
  const sign = Math.sign(differenceOf(step));
  const parts = figures.flatMap(partsOf);
  const [largest] = parts.toSorted((a, b) => sign * (b.difference - a.difference));
  const how = sign > 0 ? 'longer' : 'shorter';
  if (largest === undefined || sign * largest.difference <= 0) {
    return `The step takes ${how} than predicted, and what was measured of it does not say where.`;
  }
  const rest = differenceOf(step) - parts.reduce((sum, { difference }) => sum + difference, 0);
  const isAllMeasured = ['compute', 'communication'].every((name) =>
    figures.some(({ figure }) => figure === name),
  );
  if (isAllMeasured && sign * rest > sign * largest.difference) {
    return `The step takes ${how}, most of it neither in computation nor in messages: in waiting for data, for other ranks or for the program.`;
  }
  return `The step takes ${how}, most of it in ${largest.name}: ${largest.advice}.`;
}

/** The parts of a step that a figure stands for: its terms, and what they do not explain of it. */
function partsOf(each: ComparedFigure): readonly Part[] {
  const { figure, terms } = each;
  if (figure === 'step' || figure === 'memory') return [];
  const ofTerms = terms.map((term): Part => ({
    ...termWords[term.term],
    difference: differenceOf(term),
  }));
  const explained = ofTerms.reduce((sum, { difference }) => sum + difference, 0);
  return [...ofTerms, { ...figureWords[figure], difference: differenceOf(each) - explained }];
}

function differenceOf({ predicted, measured }: Omit<ComparedTerm, 'term'>): number {
  return measured - predicted;
}

/** Returns what there is to say of the memory: nothing if it is as predicted, or was not measured. */
export function memoryWords(figures: readonly ComparedFigure[]): readonly string[] {
  const memory = figures.find(({ figure }) => figure === 'memory');
  if (memory === undefined || Math.abs(memory.ratio - 1) < CLOSE) return [];
  const { predicted, measured } = memory;
  const difference = bytesText(Math.abs(measured - predicted));
  return measured > predicted
    ? [
        `Tensors take ${difference} more than predicted: profiler.memoryTimeline names those at the peak.`,
      ]
    : [`Tensors take ${difference} less than predicted.`];
}

function seconds(value: number): string {
  return value >= 1 ? `${value.toPrecision(3)} s` : `${(1000 * value).toPrecision(3)} ms`;
}

function bytesText(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toPrecision(3)} MB`;
}

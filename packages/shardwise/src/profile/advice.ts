import { formatBytes, formatMilliseconds } from '../text/format.ts';
import type { RankProfile } from '../run-state/rank-profile.ts';
import { limitOf, type ProfileSummary, sumOf } from './summarize.ts';

/** One thing that a step spends time on, and what can be done about it. */
export interface Advice {
  readonly limit: string;
  readonly ms: number;
  /** The share of the step. */
  readonly share: number;
  readonly found: string;
  readonly todo: string;
}

/** Smaller parts of a step are not worth a line. */
const LEAST_SHARE = 0.02;

/** Says what bounds the steps of a profile, the largest part first. The parts do not overlap. */
export function adviceOn(profile: ProfileSummary): readonly Advice[] {
  const { stepMs } = profile;
  return [waiting(profile), ...loading(profile), ...kernels(profile)]
    .map((advice) => ({ ...advice, share: advice.ms / stepMs }))
    .filter(({ share }) => share >= LEAST_SHARE)
    .toSorted((a, b) => b.share - a.share);
}

const timingNotes = {
  device:
    'The device says how long it computed a program, but not its parts: operations share the time by an estimate',
  encoding:
    'The device has no clock: times of kernels are those of handing programs over, not of computing them',
} as const;

/** Returns what must be known to read a profile. */
export function notesOn({ ranks }: ProfileSummary): readonly string[] {
  const timing = ranks.find((profile) => profile.timing !== undefined)?.timing;
  const busy = ranks.find(({ load }) => load !== undefined && load.threads > 1.5 * load.cores);
  return [
    ...(timing === undefined ? [] : [timingNotes[timing]]),
    ...(busy?.load === undefined
      ? []
      : [
          `The host of rank ${busy.rank} was busy: ${busy.load.threads.toFixed(1)} threads wanted to run on ${busy.load.cores} cores, so kernels waited for cores. End other programs, or start fewer ranks`,
        ]),
  ];
}

type Found = Omit<Advice, 'share'>;

function waiting(profile: ProfileSummary): Found {
  const { ranks, waits, times, stepMs } = profile;
  const ms = times.waitMs;
  const slow = slowRank(ranks);
  if (slow !== undefined) {
    const { rank, moreMs, of, others } = slow;
    return {
      limit: 'waiting for a rank',
      ms,
      found: `rank ${rank} takes ${formatMilliseconds(moreMs)} longer in each step than the others, most of it for ${of}; ${others} for it`,
      todo:
        of === 'kernels' || of === 'between kernels'
          ? `Give rank ${rank} as much work as the others have, and look for other programs on its host`
          : `Look at what the script does on rank ${rank} alone, such as logging, evaluation and loading`,
    };
  }
  const [first] = waits;
  if (first?.op === 'messages of stages') {
    return {
      limit: 'pipeline',
      ms,
      found: 'the stages of the pipeline wait for each other',
      todo: 'Take more microbatches, a schedule with fewer gaps such as zb1p or interleaved1f1b, and stages of equal cost',
    };
  }
  const most =
    first === undefined
      ? ''
      : `, most for ${first.op} (${formatBytes(first.bytes)} a step, ${percent(first.ms / stepMs)} of it)`;
  return {
    limit: 'communication',
    ms,
    found: `the ranks wait for messages that computation does not hide${most}`,
    todo: 'Take larger batches, accumulate gradients in noSync(), or send 16 bits: dist.bf16CompressHook, or reduceDtype of mixedPrecision',
  };
}

/** The rank for which the others wait, if there is one. */
function slowRank(ranks: readonly RankProfile[]):
  | {
      readonly rank: number;
      readonly moreMs: number;
      readonly of: string;
      readonly others: string;
    }
  | undefined {
  const busy = (profile: RankProfile): number => (profile.stepMs - profile.waitMs) / profile.steps;
  const [slowest, ...others] = ranks.toSorted((a, b) => busy(b) - busy(a));
  if (slowest === undefined || others.length === 0) return undefined;
  const meanOf = (pick: (profile: RankProfile) => number): number =>
    others.reduce((sum, profile) => sum + pick(profile) / profile.steps, 0) / others.length;
  const moreMs = busy(slowest) - meanOf((profile) => profile.stepMs - profile.waitMs);
  const waitMs = meanOf((profile) => profile.waitMs);
  // Ranks that wait for each other in turn, as in a pipeline, have no slow rank among them.
  if (moreMs < waitMs / 2 || moreMs < (0.05 * slowest.stepMs) / slowest.steps) return undefined;
  const differences = busyParts.map(([key, name]) => ({
    name,
    ms: slowest[key] / slowest.steps - meanOf((profile) => profile[key]),
  }));
  const [largest] = differences.toSorted((a, b) => b.ms - a.ms);
  const names = others.map(({ rank }) => rank).toSorted((a, b) => a - b);
  return {
    rank: slowest.rank,
    moreMs,
    of: largest?.name ?? 'kernels',
    others:
      names.length === 1
        ? `rank ${names[0]} waits`
        : names.length > 8
          ? `${names.length} ranks wait`
          : `ranks ${names.join(', ')} wait`,
  };
}

const busyParts = [
  ['computeMs', 'kernels'],
  ['betweenMs', 'between kernels'],
  ['dataMs', 'data'],
  ['graphMs', 'the graph'],
  ['compileMs', 'compiling'],
  ['hostMs', 'the script'],
] as const;

function loading({ times, parts, tinyParts }: ProfileSummary): readonly Found[] {
  return [
    {
      limit: 'data loading',
      ms: times.dataMs,
      found: 'the script waits for the next batch',
      todo: 'Load in other threads: workers of the DataLoader, and prepare data before the training',
    },
    {
      limit: 'host',
      ms: times.hostMs,
      found:
        'the thread of the rank runs the script and builds graphs, and the device has nothing to do',
      todo: 'Read values such as the loss in every tenth step only, take larger batches, and keep other work out of the loop',
    },
    {
      limit: 'graph',
      ms: times.graphMs,
      found: 'the rank collects the graph of a step and looks for its plan',
      todo: 'Use fewer and larger operations: layers of nn instead of loops over rows, and larger batches',
    },
    {
      limit: 'compiling',
      ms: times.compileMs,
      found: 'plans were made in these steps',
      todo: 'Profile later steps. If it stays, a size or a number changes the structure of the graph: see profiler.varyingSizes()',
    },
    {
      limit: 'small kernels',
      ms: times.betweenMs,
      found: `a step has ${parts.toFixed(0)} kernels, ${tinyParts.toFixed(0)} of them shorter than 10 µs, and time passes between them`,
      todo: 'Take larger batches, so that kernels are longer',
    },
  ];
}

function kernels({ rows, roofline }: ProfileSummary): readonly Found[] {
  const again = rows.filter(({ phase }) => phase === 'recomputation');
  const update = rows.filter(({ phase }) => phase === 'optimizer');
  const others = rows.filter(({ phase }) => phase === 'forward' || phase === 'backward');
  const products = others.filter(({ flops }) => flops > 0);
  const bound = products.filter((row) => limitOf(row) !== 'memory');
  const rest = others.filter((row) => !bound.includes(row));
  const speed = sumOf(bound, 'roofMs') / sumOf(bound, 'ms');
  const isSlow = roofline.f32 !== undefined && speed < 0.5;
  const isKnown = roofline.f32 !== undefined;
  return [
    {
      limit: 'recomputation',
      ms: sumOf(again, 'ms'),
      found: 'backward passes compute parts of forward passes again',
      todo: 'If memory allows it, checkpoint fewer layers',
    },
    {
      limit: 'optimizer',
      ms: sumOf(update, 'ms'),
      found: 'the update reads and writes all parameters and states of the rank',
      todo: 'Accumulate gradients over several batches, divide the states with dist.zero(), or use optim.AdamW8bit',
    },
    {
      limit: 'compute',
      ms: sumOf(bound, 'ms'),
      found: isKnown
        ? `matrix products, at ${percent(speed)} of the peak of the device`
        : 'matrix products',
      todo: isSlow
        ? 'Use larger matrices: larger batches, and sizes that are multiples of 32'
        : "Use autocast({ dtype: 'bf16' }) if the device is faster with 16 bits, or more ranks",
    },
    {
      limit: isKnown ? 'memory' : 'other operations',
      ms: sumOf(rest, 'ms'),
      found: `${topOps(rest)} move more bytes than they compute`,
      todo: "Move fewer bytes: autocast({ dtype: 'bf16' }), fused layers such as scaledDotProductAttention and LayerNorm, and no copies by permute",
    },
  ];
}

function topOps(rows: ProfileSummary['rows']): string {
  const byOp = [...Map.groupBy(rows, ({ op }) => op)].map(
    ([op, own]) => [op, sumOf(own, 'ms')] as const,
  );
  const names = byOp.toSorted(([, a], [, b]) => b - a).map(([op]) => op);
  return names.slice(0, 3).join(', ');
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

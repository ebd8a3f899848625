import { availableParallelism } from 'node:os';
import { cpu, manualSeed, setRank } from 'shardwise';
import { GPT2LMHeadModel } from '@shardwise/models';
import { Engine } from '@shardwise/serve';
import type { Bench, BenchResult } from '../bench.ts';
import { countOf } from '../rounds.ts';
import { mean, median, round, tokensPerSecond } from '../summary.ts';
import { type ThreadShares, withShares } from '../thread-shares.ts';
import { largestDifference } from './agreement.ts';
import { drive, type Driven, generatedBy } from './drive.ts';
import { productTimes, type ProductTimes } from './limit.ts';
import { gpt2Sizes, quickSizes, type ServeSizes, type Workload, workloadsOf } from './workloads.ts';

const CONCURRENCY = 32;
/** The default of an engine: a chunk of a prompt alone has so many tokens. */
const CHUNK = 256;
/** That of `shardwise serve`. */
const STEP_RATIO = 2.5;
const REQUESTS = 64;
/** Requests that are answered alone, and that are compared with training. */
const FEW = 4;
/** The rate of arrivals, as a share of what a full batch answers. */
const LOAD = 0.8;

const modelFlags = {
  layers: { type: 'string' },
  width: { type: 'string' },
  heads: { type: 'string' },
  vocabulary: { type: 'string' },
} as const;

/** Measures serving of a GPT-2 with random weights: 32 requests at once, one at a time, and in static batches. */
export const serve: Bench = {
  about: `${CONCURRENCY} requests at once to a GPT-2: beside one at a time, static batches, the products alone`,
  flags: {
    quick: { type: 'boolean' },
    requests: { type: 'string' },
    threads: { type: 'string' },
    ...modelFlags,
  },
  run: async (values): Promise<BenchResult> => {
    const usual = values['quick'] === true ? quickSizes : gpt2Sizes;
    const sizeOf = (name: keyof typeof modelFlags): number => countOf(values, name, usual[name]);
    const sizes: ServeSizes = {
      ...usual,
      layers: sizeOf('layers'),
      width: sizeOf('width'),
      heads: sizeOf('heads'),
      vocabulary: sizeOf('vocabulary'),
    };
    const threads = countOf(values, 'threads', availableParallelism());
    setRank({ device: await cpu({ threads, batchInvariant: true }) });
    manualSeed(0);
    const model = new GPT2LMHeadModel({
      vocabSize: sizes.vocabulary,
      nPositions: sizes.context,
      nEmbd: sizes.width,
      nLayer: sizes.layers,
      nHead: sizes.heads,
    });
    const engine = new Engine(model, null, {
      maxSequences: CONCURRENCY,
      maxStepRatio: STEP_RATIO,
      cacheTokens: CONCURRENCY * sizes.context,
      // All ways of arriving have the same prompts.
      prefixCaching: false,
    });
    const times = productTimes(model);
    const count = countOf(values, 'requests', REQUESTS);
    const measured: MeasuredWorkload[] = [];
    for (const workload of workloadsOf(sizes, count)) {
      measured.push(await measure(engine, model, workload, sizes, times));
    }
    const { shares, stepMs } = await decodeStep(engine, sizes);
    const productsMs = await times.ofStep(CONCURRENCY);
    const readMs = await times.ofStep(1);
    await engine.dispose();
    const decode = {
      stepMs: round(stepMs, 2),
      productsMs: round(productsMs, 2),
      readMs: round(readMs, 2),
      thread: Object.fromEntries([...shares].map(([kind, share]) => [kind, round(share, 3)])),
    };
    const generationDifference = Math.max(...measured.map((each) => each.generationDifference));
    return {
      rows: [
        ...measured.flatMap(rowsOf),
        [
          `a step of ${CONCURRENCY} single tokens`,
          `${decode.stepMs} ms; its products alone ${decode.productsMs} ms, of one token ${decode.readMs} ms`,
        ],
        ...[...shares].map(
          ([kind, share]) => [`  ${kind}`, `${(100 * share).toFixed(1)} % of the thread`] as const,
        ),
        ['log-probabilities, from training', `at most ${generationDifference}`],
      ],
      record: {
        ...sizes,
        threads,
        requests: count,
        workloads: measured,
        decode,
        generationDifference,
      },
    };
  },
};

/** Answers the workload in each way. */
async function measure(
  engine: Engine,
  model: GPT2LMHeadModel,
  workload: Workload,
  { vocabulary, layers, width }: ServeSizes,
  times: ProductTimes,
): Promise<MeasuredWorkload> {
  const few = { ...workload, lengths: workload.lengths.slice(0, FEW) };
  // Programs are compiled before anything is measured.
  await drive(
    engine,
    { ...few, lengths: few.lengths.map((each) => ({ ...each, generated: 4 })) },
    {
      kind: 'rolling',
    },
    vocabulary,
  );
  const alone = await drive(engine, few, { kind: 'alone' }, vocabulary);
  const rolling = await drive(engine, workload, { kind: 'rolling' }, vocabulary);
  const batches = await drive(engine, workload, { kind: 'static', batch: CONCURRENCY }, vocabulary);
  const perSecond = (LOAD * workload.lengths.length * 1000) / rolling.ms;
  const poisson = await drive(engine, workload, { kind: 'poisson', perSecond }, vocabulary);
  const gaps = poisson.answers.flatMap(({ gapsMs }) => gapsMs).toSorted((a, b) => a - b);
  const p99 = gaps[Math.floor(0.99 * (gaps.length - 1))] ?? Number.NaN;
  const limit = await limitMs(rolling, times);
  const reading = await times.ofReading(8 * layers * width * keysRead(workload));
  const [ofAlone, ofRolling] = [requestMs(alone, few), requestMs(rolling, workload)];
  return {
    workload: workload.name,
    prompt: mean(workload.lengths.map(({ prompt }) => prompt)),
    generated: mean(workload.lengths.map(({ generated }) => generated)),
    tokensPerSecond: round(tokensPerSecond(generatedBy(rolling), rolling.ms), 1),
    ofAlone: round(ofAlone.ms / ofRolling.ms, 2),
    ofAloneCpu: round(ofAlone.cpuMs / ofRolling.cpuMs, 2),
    ofStatic: round(batches.ms / rolling.ms, 2),
    ofStaticSteps: round(batches.steps / rolling.steps, 2),
    ofLimit: round(limit / rolling.ms, 3),
    ofLimitWithCache: round((limit + reading) / rolling.ms, 3),
    limitOfAlone: round((await limitMs(alone, times)) / FEW / (limit / workload.lengths.length), 2),
    waste: round(rolling.waste, 4),
    poisson: {
      perSecond: round(perSecond, 3),
      firstMs: round(median(poisson.answers.map(({ firstMs }) => firstMs)), 1),
      medianMs: round(median(gaps), 2),
      p99Ms: round(p99, 2),
      p99OfMedian: round(p99 / median(gaps), 2),
    },
    generationDifference: await largestDifference(model, poisson.answers.slice(0, FEW)),
  };
}

interface MeasuredWorkload {
  readonly workload: Workload['name'];
  /** The mean numbers of tokens. */
  readonly prompt: number;
  readonly generated: number;
  readonly tokensPerSecond: number;
  /** How many times as fast 32 requests at once are as one at a time, by the clock and by processor time. */
  readonly ofAlone: number;
  readonly ofAloneCpu: number;
  /** The same for static batches, by the clock and by the number of steps. */
  readonly ofStatic: number;
  readonly ofStaticSteps: number;
  /** The time of the products alone, as a share of the time. */
  readonly ofLimit: number;
  /** The same with the time of reading the keys and values that single tokens attend to, once for each. */
  readonly ofLimitWithCache: number;
  /** How many times as fast the products alone would be. */
  readonly limitOfAlone: number;
  readonly waste: number;
  readonly poisson: {
    readonly perSecond: number;
    readonly firstMs: number;
    readonly medianMs: number;
    readonly p99Ms: number;
    readonly p99OfMedian: number;
  };
  readonly generationDifference: number;
}

function requestMs({ ms, cpuMs }: Driven, { lengths }: Workload): Pick<Driven, 'ms' | 'cpuMs'> {
  // Requests differ in length, so that times are those of a token that is computed.
  const tokens = lengths.reduce((sum, { prompt, generated }) => sum + prompt + generated, 0);
  return { ms: ms / tokens, cpuMs: cpuMs / tokens };
}

/** The time of the products alone: of prompts in chunks, and of the single tokens of each step. */
async function limitMs(
  { steps, prefilled, decoded }: Driven,
  times: ProductTimes,
): Promise<number> {
  const rows = Math.max(1, Math.round(decoded / steps));
  return prefilled * (await times.ofPromptToken(CHUNK)) + steps * (await times.ofStep(rows));
}

/** How many keys the single tokens of all requests attend to. */
function keysRead({ lengths }: Workload): number {
  return lengths.reduce(
    (sum, { prompt, generated }) => sum + (generated - 1) * (prompt + generated / 2),
    0,
  );
}

/** Looks into steps in which all sequences have one token. */
async function decodeStep(
  engine: Engine,
  { chat, vocabulary }: ServeSizes,
): Promise<{ readonly shares: ThreadShares; readonly stepMs: number }> {
  const lengths = Array.from({ length: CONCURRENCY }, () => ({
    prompt: Math.min(chat.prompt, CHUNK),
    generated: chat.generated,
  }));
  const { result, shares } = await withShares(() =>
    drive(engine, { name: 'chat', lengths }, { kind: 'rolling' }, vocabulary),
  );
  return { shares, stepMs: median(result.answers.at(-1)?.gapsMs ?? []) };
}

function rowsOf(found: MeasuredWorkload): readonly (readonly [string, string])[] {
  const { workload, poisson } = found;
  const lengths = `${round(found.prompt, 0)} tokens in, ${round(found.generated, 0)} out`;
  return [
    [`${workload}: ${lengths}`, `${found.tokensPerSecond} tokens/s`],
    [
      '  relative to one at a time',
      `${found.ofAlone} (processor time ${found.ofAloneCpu}; products alone ${found.limitOfAlone})`,
    ],
    ['  relative to static batches', `${found.ofStatic} (steps ${found.ofStaticSteps})`],
    [
      '  of the speed of the products',
      `${found.ofLimit} (of products and reading keys and values ${found.ofLimitWithCache})`,
    ],
    ['  places of used blocks without a token', `${(100 * found.waste).toFixed(1)} %`],
    [
      `  ${poisson.perSecond} requests/s arrive`,
      `first token ${poisson.firstMs} ms; between tokens ${poisson.medianMs} ms, p99 ${poisson.p99Ms} ms (${poisson.p99OfMedian} times)`,
    ],
  ];
}

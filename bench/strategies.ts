import { dtypes } from '@shardwise/core/spec';
import { cpu, setRank } from 'shardwise';
import type { Bench, BenchResult } from './bench.ts';
import { matmulLimitMs } from './matmul-limit.ts';
import { startPeer, type PeerOrReason, type PeerRound } from './peer.ts';
import { type Precision, precisionFlag, precisionOf } from './precision.ts';
import { countOf, roundsFlag, roundsOf } from './rounds.ts';
import type { RankRound } from './rank-messages.ts';
import { startRanks, type Ranks } from './ranks.ts';
import {
  describeCloseness,
  measureMachine,
  type PlannedBeside,
  type PlannedStrategy,
  StrategiesPlan,
} from './strategies-plan.ts';
import { mean, median, pairedRatio, round, tokensPerSecond } from './summary.ts';
import { buildModel } from './training.ts';
import { UsageError } from './usage-error.ts';
import { peerWall, wall } from './wall.ts';
import { largeWorkload, type Workload } from './workload.ts';

const RANKS = 2;
const ROUNDS = 7;
const STEPS_PER_ROUND = 2;

interface Contestant extends PlannedStrategy {
  /** The bytes that a step communicates, in sizes of the model (Ψ), by Rajbhandari et al. 2020, "ZeRO", section 7. */
  readonly models: number;
}

const contestants: Readonly<Record<string, Contestant>> = {
  ddp: { models: 2, zero: 0 },
  'zero-1': { models: 2, zero: 1 },
  'zero-2': { models: 2, zero: 2 },
  'zero-3': { models: 3, zero: 3 },
  fsdp: { models: 3, zero: 3 },
  'fsdp-checkpointing': { models: 3, zero: 3, checkpointing: true },
};

/** The strategies of PyTorch that are compared with ours. */
const peerModes = ['ddp', 'fsdp'] as const;

/** Compares each strategy with DDP, and with PyTorch's own. */
export const strategies: Bench = {
  about: `GPT of 25 million parameters on ${RANKS} ranks: tokens per second of each strategy over DDP's`,
  flags: { ...roundsFlag, ...precisionFlag, batch: { type: 'string' }, plan: { type: 'boolean' } },
  run: async (values) => {
    const rounds = roundsOf(values, ROUNDS);
    const batch = countOf(values, 'batch', largeWorkload.batch);
    const precision = precisionOf(values);
    const plan = await planOf(values, { ...largeWorkload, batch }, precision);
    const { layers, width, heads } = largeWorkload;
    const started = await startPeer('gpt_ddp.py', [layers, width, heads, batch].map(String));
    const peer = 'peer' in started ? started.peer : undefined;
    // Each strategy has its own world, so that what one strategy leaves behind takes no memory from another.
    const ranks = new Map<string, Ranks>(
      Object.keys(contestants).map((name) => [
        name,
        startRanks(RANKS, 'strategies-rank.ts', { contestant: name, batch, precision }),
      ]),
    );
    try {
      return await compare(
        ranks,
        started,
        { ...largeWorkload, batch },
        { rounds, precision, plan },
      );
    } finally {
      for (const each of ranks.values()) await each.close();
      await peer?.close();
    }
  },
};

/** Measures this machine and plans for it, if the benchmark is asked to. Throws UsageError. */
async function planOf(
  { plan }: Readonly<Record<string, unknown>>,
  workload: Workload,
  precision: Precision,
): Promise<StrategiesPlan | null> {
  if (plan !== true) return null;
  if (precision !== 'f32') throw new UsageError('--plan with bf16', 'Plan steps in f32');
  return new StrategiesPlan(workload, await measureMachine(RANKS));
}

async function compare(
  ranks: ReadonlyMap<string, Ranks>,
  started: PeerOrReason,
  workload: Workload,
  {
    rounds,
    precision,
    plan,
  }: {
    readonly rounds: number;
    readonly precision: Precision;
    readonly plan: StrategiesPlan | null;
  },
): Promise<BenchResult> {
  const peer = 'peer' in started ? started.peer : undefined;
  const tokens = RANKS * workload.batch * workload.context;
  const ours = new Map<string, RankRound[][]>();
  const theirs = new Map<string, PeerRound[]>();
  for (let index = 0; index <= rounds; index++) {
    for (const [name, each] of ranks) {
      const answer = await each.round({ mode: 'together', steps: STEPS_PER_ROUND });
      ours.set(name, [...(ours.get(name) ?? []), answer]);
    }
    for (const mode of peer === undefined ? [] : peerModes) {
      const request = { mode, steps: STEPS_PER_ROUND, optimizer: 'default', precision } as const;
      const answer = await peer?.round(request);
      if (answer !== undefined) theirs.set(mode, [...(theirs.get(mode) ?? []), answer]);
    }
  }
  setRank({ device: await cpu() });
  const limit = await matmulLimitMs(workload);
  const base = wall(ours.get('ddp') ?? []);
  const elements = buildModel(workload)
    .parameters()
    .reduce((sum, { numel }) => sum + numel, 0);
  const results = Object.entries(contestants).map(([name, { models, ...planned }]) => {
    const all = ours.get(name) ?? [];
    const times = wall(all);
    const peers = theirs.get(name);
    const peerTimes = peers && peerWall(peers);
    const last = all.at(-1)?.[0];
    const { communicationBytes = Number.NaN } = last ?? {};
    return {
      strategy: name,
      tokensPerSecond: round(tokensPerSecond(tokens, times.medianMs), 1),
      overDdp: round(pairedRatio(base, times), 3),
      overDdpOfBest: round(base.minMs / times.minMs, 3),
      communicationBytes,
      // In sizes of the model (Ψ), to compare with the paper.
      communicationModels: round(communicationBytes / (elements * dtypes.f32.bytes), 3),
      paperModels: models,
      waitingMs: round(
        median(all.slice(1).map((each) => mean(each.map((r) => r.communicationMs)))),
        2,
      ),
      times,
      lastLoss: last?.losses.at(-1) ?? Number.NaN,
      planned: plan?.beside(planned, times.medianMs) ?? null,
      peer:
        peerTimes === undefined
          ? null
          : {
              tokensPerSecond: round(tokensPerSecond(tokens, peerTimes.medianMs), 1),
              ratio: round(pairedRatio(peerTimes, times), 3),
              ratioOfBest: round(peerTimes.minMs / times.minMs, 3),
              times: peerTimes,
              lastLoss: peers?.at(-1)?.losses.at(-1) ?? Number.NaN,
            },
    };
  });
  const planned = results.flatMap((result) => result.planned ?? []);
  return {
    rows: [
      ...results.map((result) => [result.strategy, describe(result)] as const),
      ...(plan === null ? [] : [['the plan', describeCloseness(planned)] as const]),
      [
        'the matmuls of a step',
        `${limit.ms.toFixed(0)} ms at ${limit.gigaflops.toFixed(0)} GFLOP/s, alone on one core${describeLimit(theirs, limit.ms)}`,
      ],
      'peer' in started
        ? ['PyTorch', `${started.peer.about.torch}, gloo (${started.peer.about.blas})`]
        : ['PyTorch', `not measured: ${started.reason}`],
    ],
    record: {
      workload,
      precision,
      elements,
      ranks: RANKS,
      results,
      cluster: plan?.cluster ?? null,
      matmulLimit: { ms: round(limit.ms, 2), gigaflops: round(limit.gigaflops, 1) },
      peer: peer?.about ?? null,
      ...('reason' in started ? { reason: started.reason } : {}),
    },
  };
}

/** Describes the limit for every library with these matmuls. */
function describeLimit(theirs: ReadonlyMap<string, readonly PeerRound[]>, limitMs: number): string {
  const bounds = peerModes.flatMap((mode) => {
    const rounds = theirs.get(mode);
    if (rounds === undefined) return [];
    return `${(peerWall(rounds).medianMs / limitMs).toFixed(2)} of PyTorch's ${mode}`;
  });
  return bounds.length === 0 ? '' : `: at most ${bounds.join(', ')}`;
}

interface Result {
  readonly tokensPerSecond: number;
  readonly overDdp: number;
  readonly overDdpOfBest: number;
  readonly communicationBytes: number;
  readonly communicationModels: number;
  readonly paperModels: number;
  readonly planned: PlannedBeside | null;
  readonly peer: { readonly ratio: number; readonly ratioOfBest: number } | null;
}

function describe(of: Result): string {
  return [
    `${Math.round(of.tokensPerSecond)} tokens/s`,
    `${of.overDdp.toFixed(2)} of DDP's (best rounds ${of.overDdpOfBest.toFixed(2)})`,
    `${(of.communicationBytes / 2 ** 20).toFixed(1)} MiB a step (${of.communicationModels}Ψ; paper: ${of.paperModels}Ψ)`,
    ...(of.planned === null
      ? []
      : [
          `planned ${of.planned.plannedMs} ms, measured ${of.planned.measuredMs} ms (${of.planned.ratio.toFixed(2)})`,
        ]),
    ...(of.peer === null
      ? []
      : [`${of.peer.ratio.toFixed(2)} of PyTorch's (best ${of.peer.ratioOfBest.toFixed(2)})`]),
  ].join('; ');
}

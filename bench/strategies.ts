import { dtypes } from 'shardwise';
import type { Bench, BenchResult } from './bench.ts';
import { startPeer, type Peer, type PeerRound } from './peer.ts';
import { roundsFlag, roundsOf } from './rounds.ts';
import type { RankRound } from './rank-messages.ts';
import { startRanks, type Ranks } from './ranks.ts';
import { mean, median, pairedRatio, round, tokensPerSecond } from './summary.ts';
import { buildModel } from './training.ts';
import { peerWall, wall } from './wall.ts';
import { largeWorkload as workload, tokensPerStep } from './workload.ts';

const RANKS = 2;
const ROUNDS = 7;
const STEPS_PER_ROUND = 2;

/** Models (Ψ) that a step communicates by Rajbhandari et al. 2020, "ZeRO", section 7. */
const contestants = {
  ddp: 2,
  'zero-1': 2,
  'zero-2': 2,
  'zero-3': 3,
  fsdp: 3,
  'fsdp-checkpointing': 3,
} as const;

/** PyTorch's, and which of ours do the same. */
const peerModes = ['ddp', 'fsdp'] as const;

/** Each strategy against DDP, and against PyTorch's own. */
export const strategies: Bench = {
  about: `GPT of 25 million parameters on ${RANKS} ranks: tokens per second of each strategy over DDP's`,
  flags: roundsFlag,
  run: async (values) => {
    const rounds = roundsOf(values, ROUNDS);
    const { layers, width, heads } = workload;
    const started = await startPeer('gpt_ddp.py', [layers, width, heads].map(String));
    const peer = 'peer' in started ? started.peer : undefined;
    // Worlds of their own: a memory of 4 GiB has no room for all.
    const ranks = new Map<string, Ranks>(
      Object.keys(contestants).map((name) => [name, startRanks(RANKS, 'strategies-rank.ts', name)]),
    );
    try {
      return await compare(ranks, peer, 'reason' in started ? started.reason : undefined, rounds);
    } finally {
      for (const each of ranks.values()) await each.close();
      await peer?.close();
    }
  },
};

async function compare(
  ranks: ReadonlyMap<string, Ranks>,
  peer: Peer | undefined,
  reason: string | undefined,
  rounds: number,
): Promise<BenchResult> {
  const ours = new Map<string, RankRound[][]>();
  const theirs = new Map<string, PeerRound[]>();
  for (let index = 0; index <= rounds; index++) {
    for (const [name, each] of ranks) {
      const answer = await each.round({ mode: 'together', steps: STEPS_PER_ROUND });
      ours.set(name, [...(ours.get(name) ?? []), answer]);
    }
    for (const mode of peer === undefined ? [] : peerModes) {
      const answer = await peer?.round({ mode, steps: STEPS_PER_ROUND, optimizer: 'default' });
      if (answer !== undefined) theirs.set(mode, [...(theirs.get(mode) ?? []), answer]);
    }
  }
  const base = wall(ours.get('ddp') ?? []);
  const elements = buildModel(workload)
    .parameters()
    .reduce((sum, { numel }) => sum + numel, 0);
  const results = Object.entries(contestants).map(([name, models]) => {
    const all = ours.get(name) ?? [];
    const times = wall(all);
    const peers = theirs.get(name);
    const peerTimes = peers && peerWall(peers);
    const last = all.at(-1)?.[0];
    const { communicationBytes = Number.NaN } = last ?? {};
    return {
      strategy: name,
      tokensPerSecond: round(tokensPerSecond(RANKS * tokensPerStep, times.medianMs), 1),
      overDdp: round(pairedRatio(base, times), 3),
      overDdpOfBest: round(base.minMs / times.minMs, 3),
      communicationBytes,
      // In models (Ψ), beside what the paper says.
      communicationModels: round(communicationBytes / (elements * dtypes.f32.bytes), 3),
      paperModels: models,
      waitingMs: round(
        median(all.slice(1).map((each) => mean(each.map((r) => r.communicationMs)))),
        2,
      ),
      times,
      lastLoss: last?.losses.at(-1) ?? Number.NaN,
      peer:
        peerTimes === undefined
          ? null
          : {
              tokensPerSecond: round(tokensPerSecond(RANKS * tokensPerStep, peerTimes.medianMs), 1),
              ratio: round(pairedRatio(peerTimes, times), 3),
              ratioOfBest: round(peerTimes.minMs / times.minMs, 3),
              times: peerTimes,
              lastLoss: peers?.at(-1)?.losses.at(-1) ?? Number.NaN,
            },
    };
  });
  return {
    rows: [
      ...results.map((result) => [result.strategy, describe(result)] as const),
      peer === undefined
        ? ['PyTorch', `not measured: ${reason ?? ''}`]
        : ['PyTorch', `${peer.about.torch}, gloo (${peer.about.blas})`],
    ],
    record: {
      workload,
      elements,
      ranks: RANKS,
      results,
      peer: peer?.about ?? null,
      ...(reason === undefined ? {} : { reason }),
    },
  };
}

interface Result {
  readonly tokensPerSecond: number;
  readonly overDdp: number;
  readonly overDdpOfBest: number;
  readonly communicationBytes: number;
  readonly communicationModels: number;
  readonly paperModels: number;
  readonly peer: { readonly ratio: number; readonly ratioOfBest: number } | null;
}

function describe(of: Result): string {
  return [
    `${Math.round(of.tokensPerSecond)} tokens/s`,
    `${of.overDdp.toFixed(2)} of DDP's (best rounds ${of.overDdpOfBest.toFixed(2)})`,
    `${(of.communicationBytes / 2 ** 20).toFixed(1)} MiB a step (${of.communicationModels}Ψ; paper: ${of.paperModels}Ψ)`,
    ...(of.peer === null
      ? []
      : [`${of.peer.ratio.toFixed(2)} of PyTorch's (best ${of.peer.ratioOfBest.toFixed(2)})`]),
  ].join('; ');
}

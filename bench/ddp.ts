import type { Bench, BenchResult } from './bench.ts';
import { startPeer, type Peer, type PeerRound } from './peer.ts';
import { type Precision, precisionFlag, precisionOf } from './precision.ts';
import { roundsFlag, roundsOf } from './rounds.ts';
import type { RankRound } from './rank-messages.ts';
import { startRanks, type Ranks } from './ranks.ts';
import { mean, median, pairedRatio, round, tokensPerSecond } from './summary.ts';
import { peerWall, wall } from './wall.ts';
import { tokensPerStep, workload } from './workload.ts';

const RANKS = 2;
const ROUNDS = 7;
const STEPS_PER_ROUND = 5;
const MODES = ['ddp', 'alone'] as const;

/** Compares two ranks of this host with PyTorch's DistributedDataParallel over gloo. */
export const ddp: Bench = {
  about:
    'GPT training with DDP on two ranks, tokens per second, against PyTorch DDP with gloo on two processes',
  flags: { ...roundsFlag, ...precisionFlag },
  run: async (values) => {
    const rounds = roundsOf(values, ROUNDS);
    const precision = precisionOf(values);
    const started = await startPeer('gpt_ddp.py');
    const peer = 'peer' in started ? started.peer : undefined;
    const ranks = startRanks(RANKS, 'ddp-rank.ts', { precision });
    try {
      const reason = 'reason' in started ? started.reason : undefined;
      return await compare(ranks, peer, reason, { rounds, precision });
    } finally {
      await ranks.close();
      await peer?.close();
    }
  },
};

async function compare(
  ranks: Ranks,
  peer: Peer | undefined,
  reason: string | undefined,
  { rounds, precision }: { readonly rounds: number; readonly precision: Precision },
): Promise<BenchResult> {
  const ours: Record<'ddp' | 'alone', RankRound[][]> = { ddp: [], alone: [] };
  const theirs: Record<'ddp' | 'alone', PeerRound[]> = { ddp: [], alone: [] };
  for (let index = 0; index <= rounds; index++) {
    for (const mode of MODES) {
      const ourMode = mode === 'ddp' ? 'together' : mode;
      ours[mode].push(await ranks.round({ mode: ourMode, steps: STEPS_PER_ROUND }));
      const request = { mode, steps: STEPS_PER_ROUND, optimizer: 'default', precision } as const;
      const answer = await peer?.round(request);
      if (answer !== undefined) theirs[mode].push(answer);
    }
  }
  // The first round is a warm-up.
  const times = { ddp: wall(ours.ddp), alone: wall(ours.alone) };
  const peers =
    peer === undefined ? undefined : { ddp: peerWall(theirs.ddp), alone: peerWall(theirs.alone) };
  const efficiency = pairedRatio(times.alone, times.ddp);
  const peerEfficiency = peers && pairedRatio(peers.alone, peers.ddp);
  const ratio = peers && peers.ddp.medianMs / times.ddp.medianMs;
  const communicationMs = median(
    ours.ddp.slice(1).map((all) => mean(all.map((one) => one.communicationMs))),
  );
  const losses = ours.ddp.flatMap(([first]) => first?.losses ?? []);
  const peerLosses = theirs.ddp.flatMap((answer) => answer.losses);
  const rate = (ms: number): string =>
    `${Math.round(tokensPerSecond(RANKS * tokensPerStep, ms))} tokens/s, ${ms.toFixed(1)} ms a step`;
  return {
    rows: [
      [`Shardwise, DDP on ${RANKS} ranks, median of rounds`, rate(times.ddp.medianMs)],
      [`Shardwise, ${RANKS} ranks that do not communicate`, rate(times.alone.medianMs)],
      ['efficiency', efficiency.toFixed(3)],
      ['waiting for collectives', `${communicationMs.toFixed(2)} ms a step`],
      ...(peers === undefined || ratio === undefined || peerEfficiency === undefined
        ? [['PyTorch', `not measured: ${reason ?? ''}`] as const]
        : [
            [
              `PyTorch ${peer?.about.torch ?? ''} DDP, gloo (${peer?.about.blas ?? ''}), median`,
              rate(peers.ddp.medianMs),
            ] as const,
            ['PyTorch, processes that do not communicate', rate(peers.alone.medianMs)] as const,
            ['efficiency of PyTorch', peerEfficiency.toFixed(3)] as const,
            [
              'ratio (medians, best rounds)',
              `${ratio.toFixed(2)}, ${(peers.ddp.minMs / times.ddp.minMs).toFixed(2)}`,
            ] as const,
            [
              'loss of step 0 on rank 0, ours and theirs',
              `${losses[0]?.toFixed(5) ?? ''}, ${peerLosses[0]?.toFixed(5) ?? ''}`,
            ] as const,
            [
              'loss of the last step',
              `${losses.at(-1)?.toFixed(5) ?? ''}, ${peerLosses.at(-1)?.toFixed(5) ?? ''}`,
            ] as const,
          ]),
    ],
    record: {
      workload,
      precision,
      ranks: RANKS,
      tokensPerSecond: round(tokensPerSecond(RANKS * tokensPerStep, times.ddp.medianMs), 1),
      efficiency: round(efficiency, 4),
      ratio: ratio === undefined ? null : round(ratio, 3),
      ratioOfBest: peers === undefined ? null : round(peers.ddp.minMs / times.ddp.minMs, 3),
      communicationMs: round(communicationMs, 3),
      ours: times,
      losses,
      peer:
        peers === undefined || peerEfficiency === undefined
          ? null
          : {
              ...peer?.about,
              tokensPerSecond: round(tokensPerSecond(RANKS * tokensPerStep, peers.ddp.medianMs), 1),
              efficiency: round(peerEfficiency, 4),
              ...peers,
              losses: peerLosses,
            },
      ...(reason === undefined ? {} : { reason }),
    },
  };
}

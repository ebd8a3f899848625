import type { Bench, BenchResult } from './bench.ts';
import { startPeer, type PeerOrReason, type PeerRound } from './peer.ts';
import type { RankRound } from './rank-messages.ts';
import { countOf, roundsFlag, roundsOf } from './rounds.ts';
import { startRanks, type Ranks } from './ranks.ts';
import { pairedRatio, round, type Rounds, tokensPerSecond } from './summary.ts';
import { peerWall, wall } from './wall.ts';
import { largeWorkload } from './workload.ts';

const ROUNDS = 5;
const STEPS_PER_ROUND = 2;
const EXPERTS = 8;
const K = 2;
const TARGETS = { overDense: 0.8, overOneRank: 1.7, layerOverPeer: 1.1 } as const;

/** The number of ranks of each contestant. */
const contestants = { dense: 1, experts: 1, ranks: 2, layer: 2 } as const;
type Name = keyof typeof contestants;
const names: readonly Name[] = ['dense', 'experts', 'ranks', 'layer'];

/** Compares a GPT with experts with a dense one that computes as many products, on one rank and on two. */
export const moe: Bench = {
  about: `GPT with ${EXPERTS} experts a layer, ${K} for each token, which all have as many tokens`,
  flags: { ...roundsFlag, layers: { type: 'string' } },
  run: async (values) => {
    const rounds = roundsOf(values, ROUNDS);
    const layers = countOf(values, 'layers', largeWorkload.layers);
    const { width, context, batch } = largeWorkload;
    const sizes = [width, 4 * width, EXPERTS, K, batch * context].map(String);
    const started = await startPeer('moe_layer.py', sizes);
    const ranks = new Map<Name, Ranks>(
      names.map((name) => [
        name,
        // The number of layers is passed as the batch of a rank.
        startRanks(contestants[name], 'moe-rank.ts', {
          contestant: name,
          batch: layers,
          precision: 'f32',
        }),
      ]),
    );
    try {
      return await compare(ranks, started, rounds, layers);
    } finally {
      for (const each of ranks.values()) await each.close();
      if ('peer' in started) await started.peer.close();
    }
  },
};

async function compare(
  ranks: ReadonlyMap<Name, Ranks>,
  started: PeerOrReason,
  rounds: number,
  layers: number,
): Promise<BenchResult> {
  const ours = new Map<Name, RankRound[][]>();
  const theirs: PeerRound[] = [];
  for (let index = 0; index <= rounds; index++) {
    for (const [name, each] of ranks) {
      const answer = await each.round({ mode: 'together', steps: STEPS_PER_ROUND });
      ours.set(name, [...(ours.get(name) ?? []), answer]);
    }
    if ('reason' in started) continue;
    const request = { mode: 'layer', steps: STEPS_PER_ROUND, optimizer: 'default' } as const;
    theirs.push(await started.peer.round({ ...request, precision: 'f32' }));
  }
  const { width, context, batch } = largeWorkload;
  const tokens = batch * context;
  const times = (name: Name): Rounds => wall(ours.get(name) ?? []);
  const speed = (name: Name, size: number): number =>
    tokensPerSecond(tokens * size, times(name).medianMs);
  const peerTimes = theirs.length === 0 ? undefined : peerWall(theirs);
  const overDense = pairedRatio(times('dense'), times('experts'));
  const overOneRank = 2 * pairedRatio(times('experts'), times('ranks'));
  const layerOverPeer = peerTimes && pairedRatio(peerTimes, times('layer'));
  // The messages of a layer are counts, and rows to the experts and back, forward and backward. The gradients of the
  // router are all-reduced, which counts twice.
  const router = 2 * width * EXPERTS * 4;
  const formulaBytes = EXPERTS * 4 + 4 * K * tokens * width * 4 + router;
  const layerBytes = ours.get('layer')?.at(-1)?.[0]?.communicationBytes ?? Number.NaN;
  const losses = ours.get('experts')?.at(-1)?.[0]?.losses ?? [];
  return {
    rows: [
      ['one rank, dense', `${Math.round(speed('dense', 1))} tokens/s`],
      [
        'one rank, experts',
        `${Math.round(speed('experts', 1))} tokens/s, ${overDense.toFixed(2)} of dense (target ${TARGETS.overDense})`,
      ],
      [
        'two ranks, experts shared out',
        `${Math.round(speed('ranks', 2))} tokens/s, ${overOneRank.toFixed(2)} of one rank's (target ${TARGETS.overOneRank})`,
      ],
      ['bytes of a layer, formula', `${layerBytes}, ${formulaBytes}`],
      [
        'one layer on two ranks',
        `${times('layer').medianMs.toFixed(1)} ms${layerOverPeer === undefined ? '' : `, ${layerOverPeer.toFixed(2)} times as fast as PyTorch (target ${TARGETS.layerOverPeer})`}`,
      ],
      'peer' in started
        ? ['PyTorch', `${started.peer.about.torch}, gloo (${started.peer.about.blas})`]
        : ['PyTorch', `not measured: ${started.reason}`],
    ],
    record: {
      workload: { ...largeWorkload, layers, experts: EXPERTS, k: K },
      targets: TARGETS,
      overDense: round(overDense, 3),
      overOneRank: round(overOneRank, 3),
      layerOverPeer: layerOverPeer === undefined ? null : round(layerOverPeer, 3),
      times: Object.fromEntries(names.map((name) => [name, times(name)])),
      peerTimes: peerTimes ?? null,
      layerBytes,
      formulaBytes,
      lastLoss: losses.at(-1) ?? Number.NaN,
      peer: 'peer' in started ? started.peer.about : null,
      ...('reason' in started ? { reason: started.reason } : {}),
    },
  };
}

import { cpu, setRank } from 'shardwise';
import type { Bench, BenchResult } from './bench.ts';
import { freshProcess } from './fresh-process.ts';
import { matmulLimitMs } from './matmul-limit.ts';
import { startPeer, type Peer, type PeerRound } from './peer.ts';
import { type Precision, precisionFlag, precisionOf } from './precision.ts';
import { roundsFlag, roundsOf } from './rounds.ts';
import { mean, median, round, summarize, tokensPerSecond, type Rounds } from './summary.ts';
import { trainAlone, type StepTimes } from './training.ts';
import { tokensPerStep, workload } from './workload.ts';

const ROUNDS = 7;
const STEPS_PER_ROUND = 5;

interface PeerRounds {
  readonly rounds: Rounds;
  readonly cpuMs: number;
  readonly losses: readonly number[];
}

/** Compares one rank with PyTorch eager on the same core. */
export const train: Bench = {
  about: 'GPT training on one rank, tokens per second, against PyTorch eager on one thread',
  flags: { ...roundsFlag, ...precisionFlag, compiled: { type: 'boolean' } },
  run: async (values) => {
    const rounds = roundsOf(values, ROUNDS);
    const precision = precisionOf(values);
    const isCompiled = values['compiled'] === true;
    const started = await startPeer('gpt_train.py');
    const peer = 'peer' in started ? started.peer : undefined;
    try {
      const reason = 'reason' in started ? started.reason : undefined;
      return await compare(peer, reason, { rounds, precision, isCompiled });
    } finally {
      await peer?.close();
    }
  },
};

async function compare(
  peer: Peer | undefined,
  reason: string | undefined,
  {
    rounds,
    precision,
    isCompiled,
  }: { readonly rounds: number; readonly precision: Precision; readonly isCompiled: boolean },
): Promise<BenchResult> {
  const fresh = await freshProcess();
  setRank({ device: await cpu() });
  const training = trainAlone(0, precision);
  const inFloat32 = precision === 'f32' ? null : trainAlone();
  const ours: StepTimes[][] = [];
  const oursInFloat32: StepTimes[][] = [];
  const peers: Record<'default' | 'fused' | 'compiled', PeerRound[]> = {
    default: [],
    fused: [],
    compiled: [],
  };
  const ways = ['default', 'fused', ...(isCompiled ? ['compiled' as const] : [])] as const;
  for (let index = 0; index <= rounds; index++) {
    ours.push(await training.run(STEPS_PER_ROUND));
    if (inFloat32 !== null) oursInFloat32.push(await inFloat32.run(STEPS_PER_ROUND));
    for (const optimizer of ways) {
      const answer = await peer?.round({ steps: STEPS_PER_ROUND, optimizer, precision });
      if (answer !== undefined) peers[optimizer].push(answer);
    }
  }
  const limit = await matmulLimitMs(workload);
  // The first round is a warm-up. Its losses count, but its times do not.
  const measured = ours.slice(1).flat();
  const times = summarize(ours.slice(1).map((steps) => steps.map(({ ms }) => ms)));
  const float32 =
    inFloat32 === null
      ? null
      : summarize(oursInFloat32.slice(1).map((steps) => steps.map(({ ms }) => ms)));
  const cpuMs = median(measured.map((step) => step.cpuMs));
  const losses = ours.flat().map(({ loss }) => loss);
  const eager = peer === undefined ? undefined : peerRounds(peers.default);
  const fused = peer === undefined ? undefined : peerRounds(peers.fused);
  const compiled = peers.compiled.length === 0 ? undefined : peerRounds(peers.compiled);
  const buildMs = median(measured.map((step) => step.buildMs));
  const graphMs = median(measured.map((step) => step.graphMs));
  const traceShare = mean(measured.map((step) => (step.buildMs + step.graphMs) / step.ms));
  const rate = (ms: number): string =>
    `${Math.round(tokensPerSecond(tokensPerStep, ms))} tokens/s, ${ms.toFixed(1)} ms a step`;
  return {
    rows: [
      ['Shardwise, median of rounds', rate(times.medianMs)],
      ['Shardwise, best step', rate(times.minMs)],
      ...(float32 === null
        ? []
        : [
            [
              'Shardwise in f32, median of rounds',
              `${rate(float32.medianMs)}, a ratio of ${(float32.medianMs / times.medianMs).toFixed(2)}`,
            ] as const,
          ]),
      ...(eager === undefined || fused === undefined
        ? [['PyTorch', `not measured: ${reason ?? ''}`] as const]
        : [
            [
              `PyTorch ${peer?.about.torch ?? ''} eager (${peer?.about.blas ?? ''}), median`,
              rate(eager.rounds.medianMs),
            ] as const,
            ['PyTorch eager, best step', rate(eager.rounds.minMs)] as const,
            ['PyTorch with fused AdamW, median', rate(fused.rounds.medianMs)] as const,
            ...(compiled === undefined
              ? []
              : [
                  [
                    'PyTorch with torch.compile and fused AdamW, median',
                    `${rate(compiled.rounds.medianMs)}, a ratio of ${(compiled.rounds.medianMs / times.medianMs).toFixed(2)}`,
                  ] as const,
                ]),
            ['ratio (medians, best, fused)', ratios(times, eager.rounds, fused.rounds)] as const,
            ['ratio of time on a core', (eager.cpuMs / cpuMs).toFixed(2)] as const,
            [
              'loss of step 0, ours and theirs',
              `${losses[0]?.toFixed(5) ?? ''}, ${eager.losses[0]?.toFixed(5) ?? ''}`,
            ] as const,
            [
              'loss of the last step',
              `${losses.at(-1)?.toFixed(5) ?? ''}, ${eager.losses.at(-1)?.toFixed(5) ?? ''}`,
            ] as const,
          ]),
      [
        'the matmuls of a step alone',
        `${limit.ms.toFixed(1)} ms at ${limit.gigaflops.toFixed(0)} GFLOP/s${eager === undefined ? '' : `, so a ratio of at most ${(eager.rounds.medianMs / limit.ms).toFixed(2)}`}`,
      ],
      [
        'building + looking up the graph',
        `${buildMs.toFixed(2)} + ${graphMs.toFixed(2)} ms, ${(traceShare * 100).toFixed(2)} % of a step`,
      ],
      ['first step of a fresh process', `${fresh.firstStepMs.toFixed(0)} ms`],
      [`import of @shardwise/core (${fresh.importedFrom})`, `${fresh.importMs.toFixed(1)} ms`],
    ],
    record: {
      workload,
      precision,
      ratioOverFloat32: float32 === null ? null : round(float32.medianMs / times.medianMs, 3),
      tokensPerSecond: round(tokensPerSecond(tokensPerStep, times.medianMs), 1),
      ratio: eager === undefined ? null : round(eager.rounds.medianMs / times.medianMs, 3),
      ratioOfBest: eager === undefined ? null : round(eager.rounds.minMs / times.minMs, 3),
      ratioFused: fused === undefined ? null : round(fused.rounds.medianMs / times.medianMs, 3),
      ratioCompiled:
        compiled === undefined ? null : round(compiled.rounds.medianMs / times.medianMs, 3),
      ratioOfCpuTime: eager === undefined ? null : round(eager.cpuMs / cpuMs, 3),
      matmulLimit: { ms: round(limit.ms, 2), gigaflops: round(limit.gigaflops, 1) },
      traceShare: round(traceShare, 5),
      buildMs: round(buildMs, 3),
      graphMs: round(graphMs, 3),
      firstStepMs: round(fresh.firstStepMs, 1),
      importMs: round(fresh.importMs, 1),
      importedFrom: fresh.importedFrom,
      ours: { ...times, cpuMs: round(cpuMs, 2) },
      losses,
      peer:
        peer === undefined
          ? null
          : {
              ...peer.about,
              tokensPerSecond:
                eager && round(tokensPerSecond(tokensPerStep, eager.rounds.medianMs), 1),
              eager,
              fused,
              compiled: compiled ?? null,
            },
      ...(reason === undefined ? {} : { reason }),
    },
  };
}

function peerRounds(answers: readonly PeerRound[]): PeerRounds {
  const measured = answers.slice(1);
  return {
    rounds: summarize(measured.map(({ ms }) => ms)),
    cpuMs: median(measured.flatMap((answer) => answer.cpuMs)),
    losses: answers.flatMap(({ losses }) => losses),
  };
}

function ratios(ours: Rounds, eager: Rounds, fused: Rounds): string {
  const values = [
    eager.medianMs / ours.medianMs,
    eager.minMs / ours.minMs,
    fused.medianMs / ours.medianMs,
  ];
  return values.map((value) => value.toFixed(2)).join(', ');
}

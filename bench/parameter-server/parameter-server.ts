import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { dist } from 'shardwise';
import type { Bench, BenchResult } from '../bench.ts';
import { roundsFlag, roundsOf } from '../rounds.ts';
import { median, round, tokensPerSecond } from '../summary.ts';
import { tokensPerStep, workload } from '../workload.ts';
import {
  type Contestant,
  contestants,
  type ServerAddress,
  SLOWED,
  type WorkerRequest,
  type WorkerRound,
  WORKERS,
  type WorkerStart,
} from './messages.ts';

const ROUNDS = 7;
const STEPS_PER_ROUND = 5;

/** Compares parameter servers with DDP, also if one worker is slower than the other. */
export const parameterServer: Bench = {
  about: `GPT training on ${WORKERS} workers and a parameter server: synchronous over DDP, and asynchronous over synchronous with one worker ${SLOWED} times slower`,
  flags: roundsFlag,
  run: async (values) => {
    const started = await Promise.all(contestants.map(start));
    try {
      return await measure(started, roundsOf(values, ROUNDS));
    } finally {
      for (const { close } of started) await close();
    }
  },
};

interface Started {
  readonly contestant: Contestant;
  readonly ask: (request: WorkerRequest) => Promise<readonly WorkerRound[]>;
  readonly close: () => Promise<void>;
}

async function start(contestant: Contestant): Promise<Started> {
  const server =
    contestant === 'ddp' ? undefined : new Worker(new URL('./server.ts', import.meta.url));
  const [address]: (ServerAddress | undefined)[] =
    server === undefined ? [] : await once(server, 'message');
  const world = dist.transports.createThreadsWorld({ size: WORKERS });
  const workers = Array.from({ length: WORKERS }, (_, rank) => {
    const data: WorkerStart = { contestant, rank, world, server: address };
    return new Worker(new URL('./worker.ts', import.meta.url), { workerData: data });
  });
  const askOne = async (worker: Worker, request: WorkerRequest): Promise<WorkerRound> => {
    const answered = once(worker, 'message');
    worker.postMessage(request);
    const [answer]: (WorkerRound | undefined)[] = await answered;
    if (answer === undefined) throw new Error('a worker answered nothing');
    return answer;
  };
  return {
    contestant,
    ask: (request) => Promise.all(workers.map((worker) => askOne(worker, request))),
    close: async () => {
      await Promise.all([...workers, ...(server ? [server] : [])].map((each) => each.terminate()));
    },
  };
}

async function measure(started: readonly Started[], rounds: number): Promise<BenchResult> {
  const rates = new Map<Contestant, number[]>();
  const losses = new Map<Contestant, number[]>();
  for (let index = 0; index <= rounds; index++) {
    let slowMs = 0;
    for (const { contestant, ask } of started) {
      const isTimed = contestant === 'slow-asynchronous';
      const all = await ask(isTimed ? { durationMs: slowMs } : { steps: STEPS_PER_ROUND });
      const ms = Math.max(...all.map((each) => each.ms));
      if (contestant === 'slow-synchronous') slowMs = ms;
      // A worker that was in the middle of a step when the time was over took longer.
      const rate = all.reduce((sum, { steps, ms: own }) => sum + steps / own, 0);
      // The first round is a warm-up.
      if (index > 0) rates.set(contestant, [...(rates.get(contestant) ?? []), rate]);
      losses.set(contestant, [...(losses.get(contestant) ?? []), all[0]?.loss ?? Number.NaN]);
    }
  }
  const tokens = (contestant: Contestant): number =>
    tokensPerSecond(tokensPerStep * median(rates.get(contestant) ?? []), 1);
  const ratio = (of: Contestant, over: Contestant): number =>
    median(
      (rates.get(of) ?? []).map((rate, index) => rate / (rates.get(over)?.[index] ?? Number.NaN)),
    );
  const synchronousOverDdp = ratio('synchronous', 'ddp');
  const asynchronousOverSynchronous = ratio('slow-asynchronous', 'slow-synchronous');
  return {
    rows: [
      ...contestants.map(
        (contestant) => [contestant, `${Math.round(tokens(contestant))} tokens/s`] as const,
      ),
      ['synchronous over DDP', synchronousOverDdp.toFixed(3)],
      [
        `asynchronous over synchronous, one worker ${SLOWED} times slower (ideal 2.5)`,
        asynchronousOverSynchronous.toFixed(2),
      ],
    ],
    record: {
      workload,
      workers: WORKERS,
      slowed: SLOWED,
      synchronousOverDdp: round(synchronousOverDdp, 4),
      asynchronousOverSynchronous: round(asynchronousOverSynchronous, 3),
      tokensPerSecond: Object.fromEntries(
        contestants.map((contestant) => [contestant, round(tokens(contestant), 1)]),
      ),
      losses: Object.fromEntries(losses),
    },
  };
}

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { dist } from 'shardwise';
import type { Precision } from './precision.ts';
import { rankEnvironment } from './rank-environment.ts';
import type { RankData, RankRequest, RankRound } from './rank-messages.ts';

export interface Ranks {
  /** Returns all ranks' measurements of one round, in rank order. */
  round(request: Extract<RankRequest, { steps: number }>): Promise<RankRound[]>;
  close(): Promise<void>;
}

/** The data for the training of the ranks. */
export interface Contestant {
  readonly contestant?: string;
  readonly batch?: number;
  readonly precision: Precision;
}

/** Starts ranks in a new world, as threads of this process that run bench/SCRIPT. */
export function startRanks(
  size: number,
  script: string,
  { contestant = '', batch, precision }: Contestant,
): Ranks {
  const world = dist.transports.createThreadsWorld({ size });
  const workers = Array.from({ length: size }, (_, rank) => {
    const data: RankData = { rank, world, contestant, batch, precision };
    const env = rankEnvironment(size);
    return new Worker(new URL(`./${script}`, import.meta.url), { workerData: data, env });
  });
  const ask = async (worker: Worker, request: RankRequest): Promise<RankRound> => {
    const answered = once(worker, 'message');
    worker.postMessage(request);
    const [answer]: RankRound[] = await answered;
    if (answer === undefined) throw new Error('a rank answered nothing');
    return answer;
  };
  return {
    round: (request) => Promise.all(workers.map((worker) => ask(worker, request))),
    close: async () => {
      for (const worker of workers) worker.postMessage({ mode: 'close' } satisfies RankRequest);
      await Promise.all(workers.map((worker) => worker.terminate()));
    },
  };
}

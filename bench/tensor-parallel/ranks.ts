import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { dist } from 'shardwise';
import { rankEnvironment } from '../rank-environment.ts';
import type { Mode, RankData, RankRequest, RankRound } from './messages.ts';

export interface Ranks {
  /** Returns all ranks' measurements of one round, in rank order. */
  round(steps: number): Promise<RankRound[]>;
  close(): Promise<void>;
}

export function ranksOf(mode: Mode): number {
  return mode === 'alone' ? 1 : 2;
}

/** Starts the ranks of a mode as threads of this process. */
export function startRanks(mode: Mode, layers: number, batch: number): Ranks {
  const size = ranksOf(mode);
  const world = dist.transports.createThreadsWorld({ size });
  const workers = Array.from({ length: size }, (_, rank) => {
    const data: RankData = { mode, layers, batch, rank, world };
    const env = rankEnvironment(size);
    return new Worker(new URL('./rank.ts', import.meta.url), { workerData: data, env });
  });
  const ask = async (worker: Worker, request: RankRequest): Promise<RankRound> => {
    const answered = once(worker, 'message');
    worker.postMessage(request);
    const [answer]: RankRound[] = await answered;
    if (answer === undefined) throw new Error('a rank answered nothing');
    return answer;
  };
  return {
    round: (steps) => Promise.all(workers.map((worker) => ask(worker, { steps }))),
    close: async () => {
      for (const worker of workers) worker.postMessage('close' satisfies RankRequest);
      await Promise.all(workers.map((worker) => worker.terminate()));
    },
  };
}

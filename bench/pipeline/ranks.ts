import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { dist } from 'shardwise';
import { rankEnvironment } from '../rank-environment.ts';
import { type Mode, type RankData, type RankRequest, type RankRound, RANKS } from './messages.ts';

export interface Ranks {
  /** Returns all ranks' measurements of one round, in rank order. */
  round(steps: number, latencyMs?: number): Promise<RankRound[]>;
  close(): Promise<void>;
}

/** Starts the ranks of a mode as threads of this process, in a world of their own. */
export function startRanks(mode: Mode, rows: number): Ranks {
  const world = dist.transports.createThreadsWorld({ size: RANKS });
  const workers = Array.from({ length: RANKS }, (_, rank) => {
    const data: RankData = { mode, rows, rank, world };
    const env = rankEnvironment(RANKS);
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
    round: (steps, latencyMs = 0) =>
      Promise.all(workers.map((worker) => ask(worker, { steps, latencyMs }))),
    close: async () => {
      for (const worker of workers) worker.postMessage('close' satisfies RankRequest);
      await Promise.all(workers.map((worker) => worker.terminate()));
    },
  };
}

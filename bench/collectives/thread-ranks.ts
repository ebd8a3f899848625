import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { createThreadsWorld } from '@shardwise/collectives';
import type { Contestant, Job } from './job.ts';
import { MAX_BYTES } from './rank-work.ts';
import type { ThreadRankData } from './thread-rank.ts';

/** Starts ranks that are threads of this process, with buffers in the memory that they share. */
export function startThreadRanks(
  name: string,
  kind: ThreadRankData['kind'],
  size: number,
): Contestant {
  const world = createThreadsWorld({ size, arenaBytes: 2 * MAX_BYTES + 65536 });
  const workers = Array.from({ length: size }, (_, rank) => {
    const workerData: ThreadRankData = { kind, rank, world };
    return new Worker(new URL('./thread-rank.ts', import.meta.url), { workerData });
  });
  const ask = async (worker: Worker, job: Job): Promise<number> => {
    const answered = once(worker, 'message');
    worker.postMessage(job);
    const [seconds]: number[] = await answered;
    return seconds ?? Number.NaN;
  };
  return {
    name,
    run: async (job) => Math.max(...(await Promise.all(workers.map((one) => ask(one, job))))),
    close: async () => {
      await Promise.all(workers.map((worker) => worker.terminate()));
    },
  };
}

import { parentPort, workerData } from 'node:worker_threads';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { coreYielder } from '@shardwise/collectives/node';
import { LimitWork } from './limit-work.ts';
import type { Job } from './job.ts';
import { MAX_BYTES, RankWork } from './rank-work.ts';

// This is one rank of the threads transport, or of the limit that is measured beside it.

export interface ThreadRankData {
  readonly kind: 'group' | 'limit';
  readonly rank: number;
  readonly world: ThreadsWorld;
}

const { kind, rank, world }: ThreadRankData = workerData;
const { memory, regions } = world;
const region = regions[rank];
if (region === undefined || region.byteLength <= 2 * MAX_BYTES) {
  throw new RangeError(`the region of rank ${rank} is too small`);
}
const work =
  kind === 'limit'
    ? new LimitWork(memory, regions, (regions[0]?.byteOffset ?? 0) + 2 * MAX_BYTES, rank)
    : new RankWork(
        joinThreadsWorld(world, rank, { yieldCore: coreYielder() }),
        new Uint8Array(memory.buffer, region.byteOffset, 2 * MAX_BYTES),
      );

/** Answers a job. A rejection ends the thread, which the benchmark's main thread notices. */
async function answer(job: Job): Promise<void> {
  parentPort?.postMessage(await work.run(job));
}

parentPort?.on('message', (job: Job) => void answer(job));

import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { rankResourceLimits } from '@shardwise/core/node';
import { dist } from 'shardwise';
import { forgetHighest, residentBytes } from '../resident-bytes.ts';
import { loraOfRank, type LoraOfRun, type LoraRankData } from './lora-messages.ts';

// node bench/models/lora-run.ts FOLDER RANKS THREADS
// Trains adapters in a separate process, so that its resident memory is that of this training.

const [folder = '', ranks = '', threads = ''] = process.argv.slice(2);
const world = dist.transports.createThreadsWorld({ size: Number(ranks) });
const workers = Array.from(world.regions, (_, rank) => {
  const data: LoraRankData = { rank, world, folder, threads: Number(threads) };
  return new Worker(new URL('./lora-rank.ts', import.meta.url), {
    workerData: data,
    // These are the limits with which `shardwise run` starts ranks.
    resourceLimits: rankResourceLimits,
  });
});
const messages = (): Promise<unknown[][]> =>
  Promise.all(workers.map((worker) => once(worker, 'message')));
const tell = (word: string): void => {
  for (const worker of workers) worker.postMessage(word);
};

await messages();
const before = residentBytes('VmRSS');
const warm = messages();
tell('build');
await warm;
// Another thread returns freed array buffers to the system.
await setTimeout(500);
const highest = residentBytes('VmHWM');
if (!forgetHighest()) throw new Error('the system cannot forget the highest resident memory');
const found = messages();
tell('train');
const result: LoraOfRun = {
  ranks: (await found).map(([message]) => loraOfRank.parse(message)),
  residentGrowthBytes: highest - before,
  residentOfStepsBytes: residentBytes('VmHWM') - before,
};
console.log(JSON.stringify(result));
await Promise.all(workers.map((worker) => worker.terminate()));

import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { rankResourceLimits } from '@shardwise/core/node';
import { dist } from 'shardwise';
import { forgetHighest, residentBytes } from '../resident-bytes.ts';
import { loadOfRank, type LoadOfRun, type LoadRankData } from './load-messages.ts';

// node bench/load/load-run.ts FOLDER SMALL_FOLDER RANKS
// Loads a model in a separate process, so that the resident memory of the process is that of the model.

const [folder = '', smallFolder = '', size = ''] = process.argv.slice(2);
const world = dist.transports.createThreadsWorld({ size: Number(size) });
const workers = Array.from(world.regions, (_, rank) => {
  const data: LoadRankData = { rank, world, folder, smallFolder };
  return new Worker(new URL('./load-rank.ts', import.meta.url), {
    workerData: data,
    // These are the limits with which `shardwise run` starts ranks.
    resourceLimits: rankResourceLimits,
  });
});
const messages = (): Promise<unknown[][]> =>
  Promise.all(workers.map((worker) => once(worker, 'message')));

await messages();
const read = messages();
for (const worker of workers) worker.postMessage('read');
await read;
// Another thread returns freed array buffers to the system.
await setTimeout(500);
if (!forgetHighest()) throw new Error('the system cannot forget the highest resident memory');
const before = residentBytes('VmRSS');
const found = messages();
for (const worker of workers) worker.postMessage('load');
const ranks = (await found).map(([message]) => loadOfRank.parse(message));
const result: LoadOfRun = {
  ranks,
  fileBytes: (await stat(join(folder, 'model.safetensors'))).size,
  residentGrowthBytes: residentBytes('VmHWM') - before,
};
console.log(JSON.stringify(result));
await Promise.all(workers.map((worker) => worker.terminate()));

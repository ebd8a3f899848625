import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { rankResourceLimits } from '@shardwise/core/node';
import { dist } from 'shardwise';
import { type MemoryOfRun, memoryOfRank, type MemoryRankData } from './memory-messages.ts';
import { isMemoryModel } from './memory-models.ts';
import { isMemoryStrategy } from './memory-strategies.ts';
import { forgetHighest, residentBytes } from './resident-bytes.ts';

// node bench/memory-run.ts MODEL STRATEGY RANKS
// Trains for some steps in a separate process, so that the resident memory of the process is that of this training.

const [model = '', strategy = '', size = ''] = process.argv.slice(2);
const world = dist.transports.createThreadsWorld({ size: Number(size) });
if (!isMemoryModel(model) || !isMemoryStrategy(strategy))
  throw new TypeError(`${model} with ${strategy}`);
const workers = Array.from(world.regions, (_, rank) => {
  const data: MemoryRankData = { rank, world, model, strategy };
  return new Worker(new URL('./memory-rank.ts', import.meta.url), {
    workerData: data,
    // These are the limits with which `shardwise run` starts ranks.
    resourceLimits: rankResourceLimits,
  });
});
const messages = (): Promise<unknown[][]> =>
  Promise.all(workers.map((worker) => once(worker, 'message')));

await messages();
const before = residentBytes('VmRSS');
const built = messages();
for (const worker of workers) worker.postMessage('build and train a step');
await built;
// Another thread returns freed array buffers to the system.
await setTimeout(500);
const highest = residentBytes('VmHWM');
const forgets = forgetHighest();
const found = messages();
for (const worker of workers) worker.postMessage('train');
const ranks = (await found).map(([message]) => memoryOfRank.parse(message));
const run: MemoryOfRun = {
  ranks,
  residentGrowthBytes: Math.max(highest, residentBytes('VmHWM')) - before,
  residentOfStepsBytes: forgets ? residentBytes('VmHWM') - before : null,
};
console.log(JSON.stringify(run));
await Promise.all(workers.map((worker) => worker.terminate()));

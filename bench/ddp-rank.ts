import { parentPort, workerData } from 'node:worker_threads';
import { cpu, ddp, joinThreadsWorld, LineMesh, parallelize, setRank, statistics } from 'shardwise';
import type { RankData, RankRequest, RankRound } from './ddp-messages.ts';
import { buildModel, trainAlone, Training } from './training.ts';

// One rank of the ddp benchmark: a thread that trains when told to, with or without the others.

const { rank, world }: RankData = workerData;
const group = joinThreadsWorld(world, rank);
const region = world.regions[rank];
if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
setRank({
  device: await cpu({ memory: world.memory, ...region }),
  mesh: new LineMesh('dp', group),
});

const parallel = await parallelize(buildModel(), ddp());
const trainings = {
  ddp: new Training(parallel, parallel.module.parameters(), rank),
  alone: trainAlone(rank),
};

parentPort?.on('message', (request: RankRequest) => {
  if (request.mode === 'close') group.close();
  else void answer(request);
});

/** A rejection ends the thread, which the benchmark's main thread hears. */
async function answer({ mode, steps }: Exclude<RankRequest, { mode: 'close' }>): Promise<void> {
  const before = statistics();
  await group.barrier();
  const start = performance.now();
  const times = await trainings[mode].run(steps);
  await group.barrier();
  const after = statistics();
  const round: RankRound = {
    msPerStep: (performance.now() - start) / steps,
    communicationMs: (after.communicationMs - before.communicationMs) / steps,
    losses: times.map(({ loss }) => loss),
  };
  parentPort?.postMessage(round);
}

import { setTimeout as delay } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { connectServers } from '@shardwise/parameter-server/node';
import { cpu, dist, nn, optim, setRank } from 'shardwise';
import { buildModel } from '../training.ts';
import { batchOf, workload } from '../workload.ts';
import { SLOWED, type WorkerRequest, type WorkerRound, type WorkerStart } from './messages.ts';

// This thread is one worker of one contestant of the parameter-server benchmark. It trains when it is told to.

const { contestant, rank, world, server }: WorkerStart = workerData;
const group = dist.transports.joinThreadsWorld(world, rank);
const region = world.regions[rank];
if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
setRank({
  device: await cpu({ memory: world.memory, ...region }),
  mesh: new dist.LineMesh('dp', group),
});
const parallel = await dist.parallelize(buildModel(), strategy());
const optimizer = new optim.AdamW(parallel.module.parameters(), {
  lr: workload.learningRate,
  weightDecay: workload.weightDecay,
});
const isSlow = contestant.startsWith('slow') && rank === 1;
let step = 0;

parentPort?.on('message', (request: WorkerRequest) => {
  if (request === 'close') group.close();
  else void answer(request);
});

function strategy(): dist.Strategy {
  if (server === undefined) return dist.ddp();
  const { secret, ...address } = server;
  const servers = connectServers({ addresses: [address], secret });
  const isSynchronous = contestant !== 'slow-asynchronous';
  return dist.parameterServer({
    servers,
    consistency: isSynchronous ? 'synchronous' : 'asynchronous',
  });
}

async function runStep(): Promise<number> {
  const { inputs, targets } = batchOf(step++, rank);
  optimizer.zeroGrad();
  const start = performance.now();
  const loss = nn.functional.crossEntropy(parallel.forward(inputs), targets);
  loss.backward();
  if (isSlow) {
    await loss.item();
    await delay((SLOWED - 1) * (performance.now() - start));
  }
  await optimizer.step();
  return loss.item();
}

/** Answers a request. A rejection ends the thread, which the benchmark's main thread notices. */
async function answer(request: Exclude<WorkerRequest, 'close'>): Promise<void> {
  await group.barrier();
  const start = performance.now();
  let steps = 0;
  let loss = Number.NaN;
  const goesOn = (): boolean =>
    'steps' in request ? steps < request.steps : performance.now() - start < request.durationMs;
  while (goesOn()) {
    loss = await runStep();
    steps++;
  }
  const round: WorkerRound = { steps, ms: performance.now() - start, loss };
  await group.barrier();
  parentPort?.postMessage(round);
}

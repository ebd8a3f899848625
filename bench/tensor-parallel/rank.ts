import { parentPort, workerData } from 'node:worker_threads';
import { cpu, dist, nn, optim, profiler, setRank } from 'shardwise';
import type { RankData, RankRequest, RankRound } from './messages.ts';
import { rankMemory } from './rank-memory.ts';
import { batchOf, buildModel, workload } from './workload.ts';

// This thread is one rank of the tensor-parallel benchmark. It trains when it is told to.

const { mode, layers, batch, rank, world }: RankData = workerData;
const group = dist.transports.joinThreadsWorld(world, rank);
const region = world.regions[rank];
if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
const device = await cpu({ memory: world.memory, ...region, threads: mode === 'alone' ? 2 : 1 });
setRank({ device, mesh: new dist.LineMesh('tp', group) });

const styles = dist.styles.gptTensorParallel({
  heads: workload.heads,
  sequenceParallel: mode === 'sequence' || mode === 'gathering',
  gatherAgain: mode === 'gathering',
  logits: 'parts',
});
const model = buildModel(layers);
const parallel =
  mode === 'alone' ? model : await dist.parallelize(model, dist.tensorParallel(styles));
const loss = mode === 'alone' ? nn.functional.crossEntropy : dist.styles.vocabParallelCrossEntropy;
const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
const activationBytes = batch * workload.context * workload.channels * 4;
let step = 0;

parentPort?.on('message', (request: RankRequest) => {
  if (request === 'close') group.close();
  else void answer(request.steps);
});

async function trainStep(): Promise<number> {
  const { ids, targets } = batchOf(step++, batch);
  optimizer.zeroGrad();
  const value = loss(parallel.forward(ids), targets);
  value.backward();
  await optimizer.step();
  return value.item();
}

/** Answers a request. A rejection ends the thread, which the benchmark's main thread notices. */
async function answer(steps: number): Promise<void> {
  const messages: Record<string, number> = {};
  const stop = profiler.subscribe(({ category, name, bytes }) => {
    if (category !== 'collective') return;
    if (bytes === activationBytes) messages[name] = (messages[name] ?? 0) + 1 / steps;
  });
  const before = profiler.statistics();
  await group.barrier();
  const start = performance.now();
  let last = 0;
  for (let index = 0; index < steps; index++) last = await trainStep();
  await group.barrier();
  const msPerStep = (performance.now() - start) / steps;
  stop();
  const round: RankRound = {
    msPerStep,
    communicationMs: (profiler.statistics().communicationMs - before.communicationMs) / steps,
    activationMessages: messages,
    loss: last,
    ...rankMemory({ model, optimizer }),
  };
  parentPort?.postMessage(round);
}

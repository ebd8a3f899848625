import { parentPort, workerData } from 'node:worker_threads';
import { cpu, dist, nn, optim, profiler, setRank, type Tensor } from 'shardwise';
import { buildModel } from '../training.ts';
import { batchOf, largeWorkload } from '../workload.ts';
import { type Delay, DelayedGroup } from './delayed-group.ts';
import {
  contestants,
  type MeasuredAction,
  type MeasuredStep,
  MICROBATCHES,
  type Mode,
  type RankData,
  type RankRequest,
  type RankRound,
} from './messages.ts';

// This thread is one rank of the pipeline benchmark. It trains when it is told to.

const { mode, rows, rank, world }: RankData = workerData;
const group = dist.transports.joinThreadsWorld(world, rank);
const delay: Delay = { latencyMs: 0 };
const region = world.regions[rank];
if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
const device = await cpu({ memory: world.memory, ...region });
setRank({ device, mesh: new dist.LineMesh('pp', new DelayedGroup(group, delay, device)) });

const model = buildModel(largeWorkload);
const pass = mode === 'alone' ? accumulate : await inStages(mode);
const optimizer = new optim.AdamW(model.parameters(), {
  lr: largeWorkload.learningRate,
  weightDecay: largeWorkload.weightDecay,
});
let step = 0;

parentPort?.on('message', (request: RankRequest) => {
  if (request === 'close') group.close();
  else void answer(request);
});

/** Runs forward and backward of a batch. Returns a function that reads the loss. */
type Pass = (inputs: Tensor, targets: Tensor) => Promise<() => Promise<number>>;

async function inStages(schedule: Exclude<Mode, 'alone'>): Promise<Pass> {
  const cut = contestants[schedule];
  const loss = (logits: Tensor, labels: Tensor): Tensor =>
    nn.functional.crossEntropy(logits, labels);
  const parallel = await dist.parallelize(
    model,
    dist.pipeline({ schedule, microbatches: MICROBATCHES, cut, loss }),
  );
  return async (inputs, targets) => {
    const value = parallel.forward(inputs, targets);
    value.backward();
    return () => value.item();
  };
}

/** Runs one microbatch after the other, as a training on a single rank would. */
async function accumulate(inputs: Tensor, targets: Tensor): Promise<() => Promise<number>> {
  let total = 0;
  const labels = targets.split(rows);
  for (const [index, ids] of inputs.split(rows).entries()) {
    const own = labels[index];
    if (own === undefined) throw new RangeError('fewer targets than inputs');
    const loss = nn.functional.crossEntropy(model.forward(ids), own).mul(1 / MICROBATCHES);
    loss.backward();
    total += await loss.item();
  }
  return async () => total;
}

async function runStep(): Promise<MeasuredStep> {
  const { inputs, targets } = batchOf(step++, 0, rows * MICROBATCHES);
  const actions: MeasuredAction[] = [];
  const unsubscribe = profiler.subscribe(({ category, name, startMs, durationMs }) => {
    if (category === 'stage') actions.push({ name, startMs, durationMs });
  });
  const startMs = now();
  optimizer.zeroGrad();
  const readLoss = await pass(inputs, targets);
  const accumulationMs = now() - startMs;
  await optimizer.step();
  const loss = await readLoss();
  const endMs = now();
  unsubscribe();
  return { startMs, endMs, accumulationMs, actions, loss };
}

/** Answers a request. A rejection ends the thread, which the benchmark's main thread notices. */
async function answer({ steps: count, latencyMs }: Exclude<RankRequest, 'close'>): Promise<void> {
  await group.barrier();
  delay.latencyMs = latencyMs;
  const startMs = now();
  const steps: MeasuredStep[] = [];
  for (let index = 0; index < count; index++) steps.push(await runStep());
  await group.barrier();
  const round: RankRound = { msPerStep: (now() - startMs) / count, steps };
  parentPort?.postMessage(round);
}

/** Returns a time on the clock of the events of the timeline. */
function now(): number {
  return performance.timeOrigin + performance.now();
}

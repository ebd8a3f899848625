import { once } from 'node:events';
import { parentPort, workerData } from 'node:worker_threads';
import { elementCount } from '@shardwise/core/extend';
import { dtypes } from '@shardwise/core/spec';
import { cpu, dist, type DType, manualSeed, nn, ones, optim, profiler, setRank } from 'shardwise';
import type { MemoryOfRank, MemoryRankData } from './memory-messages.ts';
import { type MemoryModel, memoryModels } from './memory-models.ts';
import { strategyOf } from './memory-strategies.ts';

// This thread is one rank of the memory benchmark. It says when it is ready to build its model, then trains and counts.

const STEPS = 3;

const { rank, world, model: modelName, strategy: strategyName }: MemoryRankData = workerData;
const group = dist.transports.joinThreadsWorld(world, rank);
const region = world.regions[rank];
if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
const mesh = new dist.LineMesh('dp', group);

const task: MemoryModel = memoryModels[modelName];
const { strategy: makeStrategy, isConstructed = false } = strategyOf(strategyName);

// A small model is trained first, so that libraries are loaded and code is compiled before anything is counted.
setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });
await trainSmallModel();
setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });

await turn('ready');

manualSeed(0);
const strategy = makeStrategy();
const model = isConstructed ? dist.constructSharded(task.build, strategy) : task.build();
const plan = dist.planFor(model, strategy);
const planned = dist.planMemory(plan, {
  activationBytes: profiler.activationBytes(task.loss((x) => model.forward(x), 0, rank)),
});
const parallel = await dist.parallelize(model, strategy);
const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
for (let step = 0; step < STEPS; step++) {
  if (step === 1) {
    // Building the model leaves garbage, which must not count in the following steps.
    globalThis.gc?.();
    await turn('warm');
  }
  optimizer.zeroGrad();
  const loss = task.loss((x) => parallel.forward(x), step, rank);
  loss.backward();
  await optimizer.step();
  await loss.item();
}
const { parameterBytes, gradientBytes, optimizerBytes, peakBytes } = dist.memory({
  model,
  optimizer,
});
const { formula } = planned;
if (formula === null || peakBytes === null) throw new TypeError('the plan has a formula');
await group.barrier();
parentPort?.postMessage({
  formula: formula.text,
  theoryStatesBytes: formula.bytes,
  unitBytes: largestUnitBytes(plan),
  activationBytes: planned.activationBytes ?? 0,
  allGradientsBytes: bytesOf(plan.parameters, plan.lowPrecision?.gradientDtype),
  parameterBytes,
  gradientBytes,
  optimizerBytes,
  peakBytes,
} satisfies MemoryOfRank);
group.close();

async function trainSmallModel(): Promise<void> {
  const model = new nn.Sequential(new nn.Linear(8, 8), new nn.Linear(8, 8));
  const parallel = await dist.parallelize(model, makeStrategy());
  const optimizer = new optim.AdamW(model.parameters());
  parallel
    .forward(ones([8, 8]))
    .sum()
    .backward();
  await optimizer.step();
}

/** Sends a message to the main thread, and waits for its answer. */
async function turn(message: string): Promise<void> {
  const word = parentPort && once(parentPort, 'message');
  parentPort?.postMessage(message);
  await word;
}

function bytesOf(parameters: dist.Plan['parameters'], dtype: DType = 'f32'): number {
  return parameters.reduce((sum, { shape }) => sum + elementCount(shape) * dtypes[dtype].bytes, 0);
}

function largestUnitBytes(of: dist.Plan): number {
  const units = Map.groupBy(of.parameters, ({ name }) => dist.byLayer(name));
  const { parameterDtype } = of.lowPrecision ?? {};
  return Math.max(...[...units.values()].map((unit) => bytesOf(unit, parameterDtype)));
}

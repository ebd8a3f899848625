import { once } from 'node:events';
import { parentPort, workerData } from 'node:worker_threads';
import { elementCount } from '@shardwise/core/extend';
import { dtypes } from '@shardwise/core/spec';
import { cpu, dist, type DType, profiler, setRank } from 'shardwise';
import type { MemoryOfRank, MemoryRankData } from './memory-messages.ts';
import { type MemoryModel, memoryModels } from './memory-models.ts';
import { buildModelOf, trainForMemory, trainSmallModel } from './memory-training.ts';

// This thread is one rank of the memory benchmark. It says when it is ready to build its model, then trains and counts.

const { world, ...task }: MemoryRankData = workerData;
const { rank } = task;
const group = dist.transports.joinThreadsWorld(world, rank);
const region = world.regions[rank];
if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
const mesh = new dist.LineMesh('dp', group);

// A small model is trained first, so that nothing of that is counted.
setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });
await trainSmallModel(task);
setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });

await turn('ready');

const built = buildModelOf(task);
const { model, strategy } = built;
const { loss: lossOf, rows }: MemoryModel = memoryModels[task.model];
const plan = dist.planFor(model, strategy);
const planned = dist.planMemory(plan, {
  activationBytes: profiler.activationBytes(
    lossOf((x) => model.forward(x), { step: 0, rank, rows }),
  ),
});
const { parameterBytes, gradientBytes, optimizerBytes, peakBytes } = await trainForMemory(
  task,
  built,
  async () => {
    // Building the model leaves garbage, which must not count in the following steps.
    globalThis.gc?.();
    await turn('warm');
  },
);
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

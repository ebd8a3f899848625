import { once } from 'node:events';
import { parentPort, workerData } from 'node:worker_threads';
import { constructAs, elementCount } from '@shardwise/core/extend';
import {
  addLora,
  LlamaForCausalLM,
  type LoraOptions,
  type ParallelPretrained,
  type PretrainedModel,
} from '@shardwise/models';
import { fromPretrained } from '@shardwise/models/node';
import { cpu, dist, optim, profiler, setRank, type Tensor } from 'shardwise';
import { batchOf } from './batches.ts';
import { tinyLlama } from './folders.ts';
import type { LoraOfRank, LoraRankData } from './lora-messages.ts';

// This thread is one rank that trains adapters of a frozen model in bf16 under FSDP. It says when it is ready.

const TOKENS = 256;
const STEPS = { warmUp: 2, measured: 3 } as const;

const { rank, world, folder, threads }: LoraRankData = workerData;
const group = dist.transports.joinThreadsWorld(world, rank);
const region = world.regions[rank];
if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
setRank({
  device: await cpu({ memory: world.memory, ...region, threads }),
  mesh: new dist.LineMesh('dp', group),
});
const strategy = dist.fsdp({ mixedPrecision: { computeDtype: 'bf16' } });

const lora = { rank: 8, alpha: 16, targetModules: 'all-linear' } satisfies LoraOptions;

const planned = plannedBytes();
// A small model is trained first, so that libraries are loaded before anything is counted.
const small = llamaOf({
  vocabSize: 64,
  hiddenSize: 64,
  intermediateSize: 64,
  numHiddenLayers: 1,
  numAttentionHeads: 2,
});
await train(trainingOf(await dist.parallelize(small, strategy)), 1);
await turn('ready');

const training = trainingOf(await fromPretrained(folder, { dtype: 'bf16', lora, strategy }));
await train(training, STEPS.warmUp);
globalThis.gc?.();
await turn('warm');
const steps = await train(training, STEPS.measured);
const { model, optimizer, trained, frozen } = training;
const { parameterBytes, gradientBytes, optimizerBytes, peakBytes } = dist.memory({
  model,
  optimizer,
});
for (const parameter of frozen) {
  if (parameter.grad === null && optimizer.stateOf(parameter) === undefined) continue;
  throw new Error('a frozen weight has a gradient or a state of the optimizer');
}
const trainedBytes = trained.reduce((sum, { part }) => sum + 4 * part.numel, 0);
if (gradientBytes > trainedBytes || optimizerBytes > 2 * trainedBytes) {
  throw new Error(`${gradientBytes} and ${optimizerBytes} bytes beside ${trainedBytes} that train`);
}
const result: LoraOfRank = {
  ...planned,
  ...steps,
  parameterBytes,
  trainedBytes,
  gradientBytes,
  optimizerBytes,
  peakBytes: peakBytes ?? Number.NaN,
};
parentPort?.postMessage(result);
group.close();

/** A model without values that were read, with adapters. */
function llamaOf(config: ConstructorParameters<typeof LlamaForCausalLM>[0]): PretrainedModel {
  const model = constructAs('bf16', { keeps: 'nothing' }, () => {
    return new LlamaForCausalLM(config, { initialValues: 'zeros' });
  });
  return addLora(model, lora);
}

/** What training takes by the formula: states, activations, and the largest unit, which is whole for a time. */
function plannedBytes(): Pick<LoraOfRank, 'statesBytes' | 'activationBytes' | 'unitBytes'> {
  const model = llamaOf(tinyLlama);
  const plan = dist.planFor(model, strategy);
  const units = Map.groupBy(plan.parameters, ({ name }) => dist.byLayer(name));
  const unitBytes = [...units.values()].map((unit) =>
    unit.reduce((sum, { shape }) => sum + 2 * elementCount(shape), 0),
  );
  const activationBytes = profiler.activationBytes(
    lossOf(model, (ids, labels) => model.forward(ids, { labels }), 0),
  );
  const { statesBytes } = dist.planMemory(plan);
  return { statesBytes, activationBytes, unitBytes: Math.max(...unitBytes) };
}

function trainingOf(parallel: ParallelPretrained) {
  const { module: model } = parallel;
  const trained = model.parameters().filter(({ requiresGrad }) => requiresGrad);
  return {
    model,
    trained,
    frozen: model.parameters().filter(({ requiresGrad }) => !requiresGrad),
    optimizer: new optim.AdamW(trained, { lr: 1e-4 }),
    loss: (step: number) => lossOf(model, (ids, labels) => parallel.forward(ids, { labels }), step),
  };
}

function lossOf(
  { config }: PretrainedModel,
  forward: (ids: Tensor, labels: Tensor) => Tensor,
  step: number,
): Tensor {
  const vocabulary = Number(Reflect.get(config, 'vocabSize'));
  const batch = { task: 'causal', vocabulary, rows: 1, length: TOKENS } as const;
  const { inputIds, labels } = batchOf(batch, step, rank);
  return forward(inputIds, labels);
}

async function train(
  { optimizer, loss: lossAt }: ReturnType<typeof trainingOf>,
  count: number,
): Promise<Pick<LoraOfRank, 'ms' | 'losses'>> {
  const result = { ms: Array<number>(), losses: Array<number>() };
  for (let step = 0; step < count; step++) {
    const start = performance.now();
    optimizer.zeroGrad();
    const loss = lossAt(step);
    loss.backward();
    await optimizer.step();
    result.losses.push(await loss.item());
    result.ms.push(performance.now() - start);
  }
  return result;
}

/** Sends a message to the main thread, and waits for its answer. */
async function turn(message: string): Promise<void> {
  if (parentPort === null) throw new TypeError('no parent thread');
  const word = once(parentPort, 'message');
  parentPort.postMessage(message);
  await word;
}

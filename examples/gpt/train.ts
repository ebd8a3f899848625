/**
 * Trains a byte-level GPT on text files, on as many ranks as it is started with, by any strategy:
 *
 *   shardwise run --nproc 2 examples/gpt/train.ts
 *   shardwise run --nproc 2 examples/gpt/train.ts --strategy fsdp --checkpointing blocks --accumulate 2
 *   shardwise run --nproc 4 examples/gpt/train.ts --strategy tp+fsdp --precision f32
 *   shardwise run --nproc 2 examples/gpt/train.ts --data 'docs/**\/*.md' --steps 2000
 *   shardwise run --nproc 4 examples/gpt/train.ts --strategy cp+fsdp --context-length 2048 --batch-size 1
 *   shardwise run --nproc 2 examples/gpt/train.ts --experts 8 --strategy experts
 *   shardwise run --nproc 2 --resume latest examples/gpt/train.ts
 */
import { readTextFiles } from '@shardwise/core/node';
import {
  checkpoints,
  ConfigError,
  data,
  DataError,
  defaultGenerator,
  dist,
  fromArray,
  hasFastBf16,
  init,
  manualSeed,
  nn,
  optim,
  randomState,
  setRandomState,
  type Tensor,
} from 'shardwise';
import { unigramEntropy } from './entropy.ts';
import { generate } from './generate.ts';
import { GPT } from './model.ts';
import { readOptions } from './options.ts';
import { readProgress } from './progress.ts';
import { applyStrategy, axesOf } from './strategies.ts';

const options = readOptions(process.argv.slice(2));
const context = await init({ mesh: (size) => axesOf(options, size) });
const { rank, worldSize, mesh } = context;
const contextLength = options['context-length'];
const batchSize = options['batch-size'];
const precision =
  options.precision === 'fastest'
    ? hasFastBf16(context.device)
      ? 'bf16'
      : 'f32'
    : options.precision;
// Ranks that have parts of one model get the same batch.
const dividesBatch = mesh.axes.some(({ name }) => name === 'dp');
const replica = dividesBatch ? mesh.group('dp') : { rank: 0, size: 1 };
const countsTokens = mesh.axes.every(({ name }) => name === 'dp' || mesh.coordinate(name) === 0);

const text = data.splitText(await readTextFiles(options.data), 0.05);
const dataset = new data.TextDataset(text.train, { contextLength });
const sampler = new data.DistributedSampler({
  dataset,
  numReplicas: replica.size,
  rank: replica.rank,
  seed: options.seed,
});
const loader = new data.DataLoader<data.TextSample>({
  dataset,
  batchSize,
  sampler,
  dropLast: true,
});
if (loader.length < options.accumulate) {
  throw new DataError(
    {
      asked: `updates of ${options.accumulate} × ${batchSize} windows of ${contextLength} bytes on each of ${replica.size} replicas of the model`,
      found: `a text of ${text.train.length} bytes, ${sampler.length} windows for a rank`,
      todo: 'Use a longer text, or a smaller --batch-size or --context-length',
    },
    { batchSize, contextLength, replicas: replica.size, bytes: text.train.length },
  );
}
const validation = new data.TextDataset(text.validation, { contextLength });
const entropy = unigramEntropy(text.validation);

manualSeed(options.seed);
const model = new GPT({
  vocabularySize: 256,
  contextLength,
  layers: options.layers,
  heads: options.heads,
  channels: options.channels,
  experts: options.experts,
  checkpointing: options.checkpointing === 'blocks',
});
const count = model.parameters().reduce((sum, parameter) => sum + parameter.numel, 0);
const trained = await applyStrategy(model, options, precision);
const optimizer = new optim.AdamW(parameterGroups(), {
  lr: options['learning-rate'],
  betas: [0.9, 0.95],
});

const warmupSteps = Math.min(options['warmup-steps'], options.steps - 1);
const schedule = optim.warmupSchedule(
  warmupSteps,
  optim.cosineSchedule(options.steps - warmupSteps, 0.1),
);

let step = 0;
if (context.resumeDirectory !== undefined) {
  const checkpoint = await checkpoints.load(context.resumeDirectory);
  const progress = readProgress(checkpoint, rank);
  await checkpoints.loadModel(checkpoint, model);
  await checkpoints.loadOptimizer(checkpoint, model, optimizer);
  loader.load(progress.loader);
  setRandomState(progress.random);
  step = checkpoint.step;
  if (step >= options.steps) {
    throw new ConfigError(
      {
        asked: `to train to step ${options.steps}`,
        found: `a checkpoint of step ${step}`,
        todo: `Pass --steps with more than ${step}`,
      },
      { step, steps: options.steps },
    );
  }
}

if (rank === 0) {
  context.describe({
    parameters: count,
    'text bytes': text.train.length + text.validation.length,
    'unigram entropy (nats)': entropy,
  });
  console.log(
    `GPT of ${count} parameters in ${precision}, ${text.train.length} bytes of text, ${worldSize} ranks, from step ${step}`,
  );
  if (trained.plan !== null) console.log(trained.plan.split('\n').at(-1));
}

let validationLoss = Number.NaN;
let stopped = false;
/** The losses of the batches whose gradients are added up for the next update. */
let losses: Tensor[] = [];
while (step < options.steps && !stopped) {
  for await (const { x, y } of loader) {
    if (losses.length === 0) optimizer.zeroGrad();
    const isLast = losses.length + 1 === options.accumulate;
    losses.push(trained.backward(fromArray(x), fromArray(y), isLast));
    if (!isLast) continue;
    for (const group of optimizer.paramGroups) {
      group.lr = options['learning-rate'] * schedule(step + 1);
    }
    await optimizer.step();
    step++;
    const loss = losses.reduce((sum, part) => sum.add(part));
    losses = [];

    const last = step === options.steps;
    const validate = last || step % options['validate-every'] === 0;
    if (validate) validationLoss = await measureValidationLoss();
    context.report({
      step,
      totalSteps: options.steps,
      loss: await loss.item(),
      tokens: countsTokens ? options.accumulate * batchSize * contextLength : 0,
      learningRate: optimizer.paramGroups[0]?.lr ?? 0,
      memory: dist.memory({ model, optimizer }),
      metrics: await nn.routerMetrics(model),
      ...(validate ? { validationLoss } : {}),
    });
    stopped = await context.shouldStop(step);
    if (last || stopped || step % options['checkpoint-every'] === 0) await save();
    if (last || stopped) break;
  }
}

if (!stopped) {
  const prompt = text.validation.subarray(0, contextLength);
  // All ranks must take part, because each of them may have a part of the model that the others need.
  const sample = await generate(trained, prompt, options['sample-bytes'], defaultGenerator());
  if (rank === 0) {
    console.log(
      `validation loss ${validationLoss.toFixed(3)} nats a byte; unigram entropy of the text ${entropy.toFixed(3)}`,
    );
    const decoder = new TextDecoder();
    console.log(
      `\n--- prompt\n${decoder.decode(prompt)}\n--- generated\n${decoder.decode(sample)}\n---`,
    );
  }
}
await context.close();

/** Weight decay applies to matrices, and not to biases and norms, as in GPT-2 and its successors. */
function parameterGroups() {
  const decayed = model.parameters().filter((parameter) => parameter.ndim >= 2);
  const others = model.parameters().filter((parameter) => parameter.ndim < 2);
  return [
    { params: decayed, weightDecay: options['weight-decay'] },
    { params: others, weightDecay: 0 },
  ];
}

/** Returns the mean loss over windows that are spread over the validation text. They are the same on every rank. */
async function measureValidationLoss(): Promise<number> {
  model.eval();
  const batches = 8;
  let sum = 0;
  for (let batch = 0; batch < batches; batch++) {
    const first = Math.floor(((validation.length - batchSize) * batch) / batches);
    const indices = Array.from({ length: batchSize }, (_, i) =>
      Math.min(validation.length - 1, Math.max(0, first) + i),
    );
    const { x, y } = data.collate(indices.map((index) => validation.get(index)));
    sum += await trained.loss(fromArray(x), fromArray(y)).item();
  }
  model.train();
  return sum / batches;
}

async function save(): Promise<void> {
  const folder = await context.saveCheckpoint({
    step,
    model,
    optimizer,
    extra: { loader: loader.state() },
    rankExtra: { random: randomState() },
  });
  if (rank === 0) console.log(`checkpoint of step ${step} in ${folder}`);
}

// One rank of the page. It runs the loop of examples/gpt/train.ts on the visitor's text.
import {
  checkpoints,
  ConfigError,
  DataError,
  fromData,
  Generator,
  init,
  manualSeed,
  noGrad,
  optim,
} from 'shardwise/browser';
import { prepare } from './prepare.ts';
import { progressOf } from './progress.ts';
import { batchSize, contextLength, parseSettings, type Sample } from './settings.ts';

const sampleBytes = 100;
const sampleEvery = 50;
const temperature = 0.7;
const learningRate = 3e-3;
const warmupSteps = 20;

const context = await init();
const { rank, worldSize } = context;
const settings = parseSettings(context.data);
const { text, size, steps, saveEvery } = settings;
if (text.length <= contextLength) {
  throw new DataError(
    {
      asked: `windows of ${contextLength} bytes and the byte after`,
      found: `a text of ${text.length} bytes`,
      todo: 'Paste a longer text',
    },
    { bytes: text.length },
  );
}

manualSeed(1);
const { model, parameters, rows, loss, logits } = await prepare(settings, rank, worldSize);
const optimizer = new optim.AdamW(parameters, { lr: learningRate, betas: [0.9, 0.95] });
const schedule = optim.warmupSchedule(
  Math.min(warmupSteps, steps - 1),
  optim.cosineSchedule(Math.max(1, steps - warmupSteps), 0.1),
);
// Both generators are the same on every rank. They choose the windows of an update, and the bytes of a sample.
const places = new Generator(1);
const draws = new Generator(2);
// A byte order mark is a part of the text.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

let first = 1;
if (context.resumeDirectory !== undefined) {
  const checkpoint = await checkpoints.load(context.resumeDirectory);
  const progress = progressOf(checkpoint);
  await checkpoints.loadModel(checkpoint, model);
  await checkpoints.loadOptimizer(checkpoint, model, optimizer);
  places.setState(progress.places);
  draws.setState(progress.draws);
  first = checkpoint.step + 1;
  if (first > steps) {
    throw new ConfigError(
      {
        asked: `to train to update ${steps}`,
        found: `a checkpoint of update ${checkpoint.step}`,
        todo: `Choose more updates than ${checkpoint.step}`,
      },
      { step: checkpoint.step, steps },
    );
  }
}

for (let step = first; step <= steps; step++) {
  for (const group of optimizer.paramGroups) group.lr = learningRate * schedule(step);
  const windows = Array.from(places.rand(batchSize), (share) =>
    Math.floor(share * (text.length - contextLength)),
  ).slice(rows.from, rows.to);
  optimizer.zeroGrad();
  const mean = loss(batchAt(windows, 0), batchAt(windows, 1));
  mean.backward();
  await optimizer.step();
  context.report({
    step,
    totalSteps: steps,
    loss: await mean.item(),
    tokens: batchSize * contextLength,
  });
  const stops = await context.shouldStop(step);
  const isLast = stops || step === steps;
  if (isLast || step === 1 || step % sampleEvery === 0) await sendSample(step);
  if (saveEvery > 0 && (isLast || step % saveEvery === 0)) await save(step);
  if (isLast) break;
}
await context.close();

/**
 * Saves a checkpoint. It is a collective. Training goes on meanwhile, and the previous checkpoint stays until the new
 * one is complete.
 */
async function save(step: number): Promise<void> {
  const extra = {
    text: decoder.decode(text),
    size,
    steps,
    places: { ...places.getState() },
    draws: { ...draws.getState() },
  };
  await context.saveCheckpoint({ step, model, optimizer, extra }, { async: true, keep: 2 });
}

/** Returns the bytes of the text that begin at these places. Shape: -> i32 [B, T]. */
function batchAt(windows: readonly number[], offset: number) {
  const ids = windows.flatMap((start) => [
    ...text.subarray(start + offset, start + offset + contextLength),
  ]);
  return fromData(Int32Array.from(ids), [windows.length, contextLength], 'i32');
}

/** Continues the beginning of the text, one byte after the other. Every rank takes part. */
async function sendSample(step: number): Promise<void> {
  const window = Int32Array.from(text.subarray(0, contextLength));
  const generated = new Uint8Array(sampleBytes);
  for (let position = 0; position < sampleBytes; position++) {
    const all = await logits(fromData(window.slice(), [1, contextLength], 'i32'));
    const next = noGrad(() =>
      all
        .select(1, -1)
        .mul(1 / temperature)
        .softmax(),
    );
    const probabilities = await next.data();
    let left = draws.rand(1)[0] ?? 0;
    let byte = 0;
    while (byte < 255 && (left -= Number(probabilities[byte])) >= 0) byte++;
    generated[position] = byte;
    window.copyWithin(0, 1);
    window[contextLength - 1] = byte;
  }
  const sample: Sample = { step, text: decoder.decode(generated) };
  if (rank === 0) context.send(sample);
}

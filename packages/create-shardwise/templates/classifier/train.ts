// Fine-tunes an encoder to classify texts. Every rank runs this file.
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Accuracy, padCollate, tensorsOf, type TokenRows } from '@shardwise/data';
import { loadTokenizer, saveTokenizer } from '@shardwise/data/node';
import { sequenceClassifier } from '@shardwise/models';
import { fromPretrained, savePretrained } from '@shardwise/models/node';
import { data, dist, init, manualSeed, noGrad, optim } from 'shardwise';
import { pretrain } from './pretrain.ts';
import { readTexts } from './texts.ts';

const { values } = parseArgs({
  options: {
    /** A folder of a BERT or RoBERTa, such as all-MiniLM-L6-v2. Default: a small one that is trained first. */
    model: { type: 'string' },
    /** A file whose rows have `text` and `label`: CSV, or JSON lines. */
    data: { type: 'string', default: 'data/messages.csv' },
    epochs: { type: 'string', default: '8' },
    'learning-rate': { type: 'string', default: '2e-3' },
  },
});
const [epochs, lr] = [Number(values.epochs), Number(values['learning-rate'])];
if (!(epochs >= 1)) throw new RangeError(`--epochs ${values.epochs}: give a number from 1`);
if (!(lr > 0)) throw new RangeError(`--learning-rate ${values['learning-rate']}: give one above 0`);
const maxLength = 64; // Longer texts are cut to this number of tokens.
const batchSize = 16;

const context = await init();
const { rank, worldSize } = context;
if (context.resumeDirectory !== undefined) {
  throw new Error(
    'This script does not --resume. Start it with --model and the folder `best` of a run',
  );
}
manualSeed(1); // Every rank begins with the same weights.

const texts = await readTexts(values.data);
const folder = values.model ?? (await pretrain(texts, maxLength, context));
const tokenizer = await loadTokenizer(folder);
const { padTokenId } = tokenizer;
if (padTokenId === undefined) {
  throw new Error(`The tokenizer of ${folder} has no pad_token: name one in tokenizer_config.json`);
}
const model = await fromPretrained(folder, sequenceClassifier({ classes: texts.classes }));
const parallel = await dist.parallelize(model, dist.ddp()); // Gradients are averaged over the ranks.
const optimizer = new optim.AdamW(model.parameters(), { lr });

// Of five texts, one is for validation.
const samples = texts.rows.map(({ text, label }) => ({
  inputIds: data.ndArray(Int32Array.from(tokenizer.encode(text, { maxLength }).inputIds)),
  labels: data.ndArray(Int32Array.of(label), []),
}));
const training = samples.filter((_, index) => index % 5 !== 4);
const validation = samples.filter((_, index) => index % 5 === 4);
if (validation.length === 0) throw new Error(`${values.data}: give at least five texts`);
const collate = padCollate({ padTokenId, length: maxLength });
const { loader } = loaderOf(training, true);
const totalSteps = epochs * loader.length;
const schedule = new optim.LearningRateScheduler(optimizer, optim.linearSchedule(totalSteps));

const best = join(context.runDirectory, 'best');
let bestAccuracy = -1;
let step = 0;
let stopping = false;
for (let epoch = 0; epoch < epochs && !stopping; epoch++) {
  for await (const batch of loader) {
    const { inputIds, ...call } = tensorsOf(batch, 'inputIds', 'attentionMask', 'labels');
    const loss = parallel.forward(inputIds, call);
    optimizer.zeroGrad();
    loss.backward();
    optim.clipGradNorm(model.parameters(), 1);
    await optimizer.step();
    schedule.step();
    step++;
    context.report({ step, totalSteps, loss: await loss.item() });
    stopping = await context.shouldStop(step); // After Ctrl-C, all ranks stop after the same step.
    if (stopping) break;
  }
  const accuracy = await validate();
  if (rank === 0) console.log(`epoch ${epoch + 1}: accuracy ${accuracy.toFixed(3)}`);
  if (accuracy > bestAccuracy) {
    bestAccuracy = accuracy;
    await saveTokenizer(tokenizer, best);
    await savePretrained(model, best); // all ranks take part
  }
}
if (rank === 0) console.log(`the best model has accuracy ${bestAccuracy.toFixed(3)}: ${best}`);
await context.close();

/** Batches of this rank's part of some samples. */
function loaderOf(rows: readonly TokenRows[], shuffle: boolean) {
  const dataset = { length: rows.length, get: (index: number) => rows[index] ?? {} };
  const sampler = new data.DistributedSampler({ dataset, numReplicas: worldSize, rank, shuffle });
  const loader = new data.DataLoader<TokenRows>({ dataset, batchSize, sampler, collate });
  return { loader, sampler };
}

/** The share of the texts for validation whose class is found. All ranks together read each text once. */
async function validate(): Promise<number> {
  const { loader, sampler } = loaderOf(validation, false);
  const accuracy = new Accuracy({ sampler });
  model.eval();
  for await (const batch of loader) {
    const { inputIds, labels, ...call } = tensorsOf(batch, 'inputIds', 'attentionMask', 'labels');
    const logits = noGrad(() => parallel.forward(inputIds, call));
    await accuracy.update(logits, labels);
  }
  model.train();
  return accuracy.compute();
}

/**
 * Fine-tunes a BERT to classify texts, on as many ranks as it is started with. By default it learns to tell spam from
 * other mails, with a small encoder that it pre-trains itself:
 *
 *   shardwise run --nproc 2 examples/bert-classifier/train.ts
 *   shardwise run --nproc 2 examples/bert-classifier/train.ts --model all-MiniLM-L6-v2 --learning-rate 5e-5
 *   shardwise run --nproc 2 examples/bert-classifier/train.ts --data reviews.jsonl
 *
 * The model of the epoch with the best accuracy on the validation set is kept in `best` of the run's folder.
 */
import { join } from 'node:path';
import { Accuracy, padCollate, tensorsOf, type TokenRows } from '@shardwise/data';
import { loadTokenizer, saveTokenizer } from '@shardwise/data/node';
import { sequenceClassifier } from '@shardwise/models';
import { fromPretrained, loadPretrained, savePretrained } from '@shardwise/models/node';
import { ConfigError, data, dist, init, manualSeed, noGrad, optim } from 'shardwise';
import { learningRateAt } from './learning-rate.ts';
import { readOptions } from './options.ts';
import { pretrainEncoder } from './pretrain.ts';
import { readLines, readMails } from './texts.ts';
import { TokenDataset } from './token-dataset.ts';

const options = readOptions(process.argv.slice(2));
const context = await init();
const { rank, worldSize } = context;
if (context.resumeDirectory !== undefined) {
  throw new ConfigError({
    asked: 'to continue a run (--resume)',
    found: 'a script that saves models, and not the states of its optimizer',
    todo: 'Start anew, from the folder `best` of the earlier run: --model RUN/best',
  });
}
manualSeed(options.seed);

const texts = options.data === 'mails' ? readMails() : await readLines(options.data);
const folder =
  options.model === 'none' ? await pretrainEncoder(texts.train, options, context) : options.model;
const model = await fromPretrained(folder, sequenceClassifier({ classes: texts.classes }));
const tokenizer = await loadTokenizer(folder);
const { padTokenId } = tokenizer;
if (padTokenId === undefined) {
  throw new ConfigError({
    asked: `to pad texts with the tokenizer of ${folder}`,
    found: 'no padding token',
    todo: 'Name one in tokenizer_config.json: "pad_token"',
  });
}

const collate = padCollate({ padTokenId, length: options['max-length'] });
const encode = (part: typeof texts.train): TokenDataset =>
  new TokenDataset(part, tokenizer, options['max-length']);
const [training, validation] = [encode(texts.train), encode(texts.validation)];
const sampler = new data.DistributedSampler({
  dataset: training,
  numReplicas: worldSize,
  rank,
  seed: options.seed,
});
const loader = new data.DataLoader<TokenRows>({
  dataset: training,
  batchSize: options['batch-size'],
  sampler,
  dropLast: true,
  collate,
});

const parallel = await dist.parallelize(model, dist.ddp());
const optimizer = new optim.AdamW(model.parameters(), {
  lr: options['learning-rate'],
  weightDecay: options['weight-decay'],
});
const allSteps = loader.length * options.epochs;
const steps = Math.min(allSteps, options['max-steps'] === 0 ? Infinity : options['max-steps']);
if (rank === 0) {
  const { length } = training;
  console.log(
    `${length} texts of ${texts.classes.length} classes, ${worldSize} ranks, ${steps} steps`,
  );
}

const best = join(context.runDirectory, 'best');
let bestAccuracy = -1;
let epochsWithoutBetter = 0;
let step = 0;
let stopped = false;
while (step < steps && epochsWithoutBetter < options.patience && !stopped) {
  for await (const batch of loader) {
    for (const group of optimizer.paramGroups) {
      group.lr = options['learning-rate'] * learningRateAt(step, steps, options['warmup-steps']);
    }
    const { inputIds, ...call } = tensorsOf(batch, 'inputIds', 'attentionMask', 'labels');
    const loss = parallel.forward(inputIds, call);
    optimizer.zeroGrad();
    loss.backward();
    optim.clipGradNorm(model.parameters(), options['max-norm']);
    await optimizer.step();
    step++;
    context.report({
      step,
      totalSteps: steps,
      loss: await loss.item(),
      learningRate: optimizer.paramGroups[0]?.lr ?? 0,
    });
    stopped = await context.shouldStop(step);
    if (step === steps || stopped) break;
  }
  const accuracy = await accuracyOn(validation);
  const isBetter = accuracy > bestAccuracy;
  if (rank === 0) {
    console.log(
      `step ${step}: ${percent(accuracy)} of the validation set, ${isBetter ? 'the best so far' : 'no better'}`,
    );
  }
  epochsWithoutBetter = isBetter ? 0 : epochsWithoutBetter + 1;
  if (isBetter) {
    bestAccuracy = accuracy;
    await savePretrained(model, best);
  }
}

await saveTokenizer(tokenizer, best);
await loadPretrained(model, best);
const accuracy = await accuracyOn(encode(texts.test));
if (rank === 0)
  console.log(`the best model has ${percent(accuracy)} of the test set right: ${best}`);
await context.close();

/** The share of texts whose class is found. All ranks together read each text once. */
async function accuracyOn(dataset: TokenDataset): Promise<number> {
  const own = new data.DistributedSampler({
    dataset,
    numReplicas: worldSize,
    rank,
    shuffle: false,
  });
  const metric = new Accuracy({ sampler: own });
  const batches = new data.DataLoader<TokenRows>({ dataset, batchSize: 32, sampler: own, collate });
  model.eval();
  for await (const batch of batches) {
    const { inputIds, attentionMask, labels } = tensorsOf(
      batch,
      'inputIds',
      'attentionMask',
      'labels',
    );
    await metric.update(
      noGrad(() => parallel.forward(inputIds, { attentionMask })),
      labels,
    );
  }
  model.train();
  return metric.compute();
}

function percent(share: number): string {
  return `${(100 * share).toFixed(2)} %`;
}

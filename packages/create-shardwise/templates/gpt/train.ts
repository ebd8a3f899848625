// Trains a small GPT-2 on text. Every rank runs this file.
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { readTextFiles } from '@shardwise/core/node';
import { byteTokenizer, tensorsOf, TokenDataset, type TokenRows } from '@shardwise/data';
import { saveTokenizer } from '@shardwise/data/node';
import { generate, GPT2LMHeadModel } from '@shardwise/models';
import { savePretrained } from '@shardwise/models/node';
import { checkpoints, data, dist, init, manualSeed, noGrad, optim } from 'shardwise';

const { values } = parseArgs({
  options: {
    /** A text file, or a pattern in quotes. Default: sources that are installed with the packages. */
    text: { type: 'string', default: 'node_modules/@shardwise/core/src/nn/**/*.ts' },
    steps: { type: 'string', default: '200' },
    prompt: { type: 'string', default: 'export class ' },
  },
});
const steps = Number(values.steps);
if (!(steps >= 1)) throw new RangeError(`--steps ${values.steps}: give a number from 1`);
const contextLength = 64; // the tokens that the model sees at once
const batchSize = 16; // the windows of the text that a rank learns from in a step

const context = await init();
const { rank, worldSize, resumeDirectory } = context;

// Each byte is a token. The last tenth of the text is for validation.
const tokenizer = byteTokenizer();
const text = new TextDecoder().decode(await readTextFiles(values.text));
const { inputIds: tokens } = tokenizer.encode(text);
const { inputIds: prompt } = tokenizer.encode(values.prompt);
const maxNewTokens = contextLength - prompt.length;
if (prompt.length === 0 || maxNewTokens < 1) {
  throw new RangeError(`--prompt of ${prompt.length} bytes: give 1 to ${contextLength - 1}`);
}
const cut = Math.floor(0.9 * tokens.length);
const dataset = new TokenDataset(tokens.slice(0, cut), { contextLength });
const sampler = new data.DistributedSampler({ dataset, numReplicas: worldSize, rank });
const loader = new data.DataLoader<TokenRows>({ dataset, batchSize, sampler, dropLast: true });
const unseen = new TokenDataset(tokens.slice(cut), { contextLength });

manualSeed(1); // Every rank begins with the same weights.
const model = new GPT2LMHeadModel({
  vocabSize: tokenizer.vocabularySize,
  nPositions: contextLength,
  nEmbd: 128,
  nLayer: 3,
  nHead: 4,
  embdPdrop: 0,
  residPdrop: 0,
  attnPdrop: 0,
});
const parallel = await dist.parallelize(model, dist.ddp()); // Gradients are averaged over the ranks.
const optimizer = new optim.AdamW(model.parameters(), { lr: 2e-3 });
const schedule = new optim.LearningRateScheduler(optimizer, optim.cosineSchedule(steps, 0.1));

let step = 0;
if (resumeDirectory !== undefined) {
  const checkpoint = await checkpoints.load(resumeDirectory);
  await checkpoints.loadModel(checkpoint, model);
  await checkpoints.loadOptimizer(checkpoint, model, optimizer);
  loader.load(checkpoint.extra);
  for (step = 0; step < checkpoint.step; step++) schedule.step();
}
if (rank === 0) {
  const { length } = model.parameters();
  console.log(`${length} parameters, ${tokens.length} bytes of text, ${worldSize} ranks`);
}

let stopping = false;
while (step < steps && !stopping) {
  for await (const batch of loader) {
    const { inputIds, labels } = tensorsOf(batch, 'inputIds', 'labels');
    const loss = parallel.forward(inputIds, { labels });
    optimizer.zeroGrad();
    loss.backward();
    optim.clipGradNorm(model.parameters(), 1);
    await optimizer.step();
    schedule.step();
    step++;

    const isLast = step === steps;
    const validated = isLast || step % 50 === 0 ? { validationLoss: await validate() } : {};
    const sizes = { tokens: batchSize * contextLength };
    context.report({ step, totalSteps: steps, loss: await loss.item(), ...sizes, ...validated });
    stopping = await context.shouldStop(step); // After Ctrl-C, all ranks stop after the same step.
    if (stopping || isLast) {
      await context.saveCheckpoint({ step, model, optimizer, extra: loader.state() });
      break;
    }
  }
}

for (const temperature of [0.5, 0.8]) {
  // All ranks write the same text, because they draw the same random numbers.
  const options = { maxNewTokens, doSample: true, temperature };
  const [row = []] = await generate(parallel, [prompt], options);
  if (rank === 0)
    console.log(`temperature ${temperature}: ${JSON.stringify(tokenizer.decode(row))}`);
}
const folder = join(context.runDirectory, 'model');
await saveTokenizer(tokenizer, folder);
await savePretrained(parallel, folder);
if (rank === 0) console.log(`the model, as Python's transformers opens it: ${folder}`);
await context.close();

/** The mean loss over windows of the text that the model has not seen. */
async function validate(): Promise<number> {
  const windows = Math.min(32, unseen.length);
  const batch = data.collate(
    await Promise.all(Array.from({ length: windows }, (_, index) => unseen.get(index))),
  );
  const { inputIds, labels } = tensorsOf(batch, 'inputIds', 'labels');
  return noGrad(() => parallel.forward(inputIds, { labels })).item();
}

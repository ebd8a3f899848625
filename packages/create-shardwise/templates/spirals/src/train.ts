// Every rank runs this file. `npm run train` starts two ranks, and `node src/train.ts` starts one.
import { parseArgs } from 'node:util';
import { checkpoints, data, dist, fromArray, init, manualSeed, nn, noGrad, optim } from 'shardwise';
import { CLASSES, type Sample, spirals } from './data.ts';
import { Classifier } from './model.ts';

const { values } = parseArgs({ options: { epochs: { type: 'string', default: '15' } } });
const epochs = Number(values.epochs);
if (!(epochs >= 1)) throw new RangeError(`--epochs ${values.epochs}: give a number from 1`);

const context = await init();
const { rank, worldSize, resumeDirectory } = context;

const dataset = spirals(6000, 1);
const sampler = new data.DistributedSampler({ dataset, numReplicas: worldSize, rank });
// A step takes 120 items, whatever the number of ranks is.
const batchSize = Math.ceil(120 / worldSize);
const loader = new data.DataLoader<Sample>({ dataset, batchSize, sampler });

const unseen = spirals(600, 2);
const validation = data.collate(
  Array.from({ length: unseen.length }, (_, index) => unseen.get(index)),
);

manualSeed(1); // Every rank begins with the same weights.
const model = new Classifier(64, CLASSES);
const parallel = await dist.parallelize(model, dist.ddp()); // Gradients are averaged over the ranks.
const optimizer = new optim.AdamW(model.parameters(), { lr: 3e-3 });

let step = 0;
if (resumeDirectory !== undefined) {
  const checkpoint = await checkpoints.load(resumeDirectory);
  await checkpoints.loadModel(checkpoint, model);
  await checkpoints.loadOptimizer(checkpoint, model, optimizer);
  loader.load(checkpoint.extra);
  step = checkpoint.step;
}

const totalSteps = epochs * loader.length;
let stopping = false;
while (step < totalSteps && !stopping) {
  for await (const { x, y } of loader) {
    const loss = nn.functional.crossEntropy(parallel.forward(fromArray(x)), fromArray(y));
    optimizer.zeroGrad();
    loss.backward();
    await optimizer.step();
    step++;

    const isLast = step === totalSteps;
    const measured = isLast || step % loader.length === 0 ? await validate() : {};
    context.report({ step, totalSteps, loss: await loss.item(), ...measured });
    stopping = await context.shouldStop(step); // After Ctrl-C, all ranks stop after the same step.
    if (stopping || isLast) {
      await context.saveCheckpoint({ step, model, optimizer, extra: loader.state() });
      break;
    }
  }
}
await context.close();

/** Returns loss and accuracy on points that the model has not seen. */
async function validate() {
  const labels = fromArray(validation.y);
  const logits = noGrad(() => parallel.forward(fromArray(validation.x)));
  const hits = logits.argMax(1).eq(labels).to('f32').mean();
  const validationLoss = await nn.functional.crossEntropy(logits, labels).item();
  return { validationLoss, metrics: { accuracy: await hits.item() } };
}

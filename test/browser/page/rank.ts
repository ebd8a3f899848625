import { checkpoints, dist, init, manualSeed, nn, optim, type Tensor } from 'shardwise/browser';
import { batch, Classifier, rowsOf } from './classifier.ts';
import type { Task } from './task.ts';

const context = await init();
const { rank, worldSize } = context;
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the page of this test has posted it
const task = context.data as Task;

manualSeed(1);
const model = new Classifier();
const lossOf = (logits: Tensor, labels: Tensor): Tensor =>
  nn.functional.crossEntropy(logits, labels);

/** Prepares a backward pass of this rank's rows, which returns the mean loss of all ranks. */
async function prepare(): Promise<{
  readonly parameters: Iterable<nn.Parameter>;
  readonly backward: (step: number) => Tensor;
}> {
  if (task.strategy === 'pipeline') {
    const stages = dist.pipeline({
      axis: 'dp',
      schedule: '1f1b',
      microbatches: 4,
      cut: ['second'],
      loss: lossOf,
    });
    const parallel = await dist.parallelize(model, stages);
    return {
      parameters: parallel.module.parameters(),
      backward: (step) => {
        const { x, labels } = rowsOf(step, 0, batch);
        const loss = parallel.forward(x, labels);
        loss.backward();
        return loss;
      },
    };
  }
  const share = batch / worldSize;
  const strategy = task.strategy === 'fsdp' ? dist.fsdp() : dist.ddp();
  const parallel = task.strategy === 'none' ? undefined : await dist.parallelize(model, strategy);
  return {
    parameters: model.parameters(),
    backward: (step) => {
      const { x, labels } = rowsOf(step, rank * share, (rank + 1) * share);
      const logits = parallel === undefined ? model.forward(x) : parallel.forward(x);
      const loss = lossOf(logits, labels);
      loss.backward();
      return loss;
    },
  };
}

function computeFor(ms: number): void {
  const end = performance.now() + ms;
  let now = performance.now();
  while (now < end) now = performance.now();
}

const { parameters, backward } = await prepare();
const optimizer = new optim.AdamW(parameters, { lr: 1e-2 });
let first = 1;
if (context.resumeDirectory !== undefined) {
  const checkpoint = await checkpoints.load(context.resumeDirectory);
  await checkpoints.loadModel(checkpoint, model);
  await checkpoints.loadOptimizer(checkpoint, model, optimizer);
  first = checkpoint.step + 1;
}
for (let step = first; step <= task.steps; step++) {
  optimizer.zeroGrad();
  const loss = backward(step);
  await optimizer.step();
  context.report({ step, loss: await loss.item(), tokens: batch });
  if (task.save?.steps.includes(step)) {
    const { async, keep } = task.save;
    await context.saveCheckpoint({ step, model, optimizer }, { async, keep });
  }
  if (task.act === 'fail rank 1' && rank === 1 && step === 3)
    throw new RangeError('a bug of the script');
  // Rank 0 is busy when rank 1 is ended, and hears of it seconds later.
  if (task.act === 'kill rank 1' && rank === 0 && step === 3) computeFor(4000);
  if (await context.shouldStop(step)) break;
}
context.send(`rank ${rank} is done`);
await context.close();

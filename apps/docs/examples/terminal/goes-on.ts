import { checkpoints, dist, init, nn, optim, randn } from 'shardwise';

const context = await init();
const model = new nn.Linear(8, 1);
const parallel = await dist.parallelize(model, dist.ddp());
const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
let step = 0;
if (context.resumeDirectory !== undefined) {
  const checkpoint = await checkpoints.load(context.resumeDirectory);
  await checkpoints.loadModel(checkpoint, model);
  await checkpoints.loadOptimizer(checkpoint, model, optimizer);
  step = checkpoint.step;
}

while (step < 6) {
  step += 1;
  const output = parallel.forward(randn([4, 8]));
  const loss = output.square().mean();
  optimizer.zeroGrad();
  loss.backward();
  await optimizer.step();
  await context.saveCheckpoint({ step, model, optimizer });
  // The first time, rank 1 fails here.
  if (step === 4 && context.resumeDirectory === undefined && context.rank === 1) {
    throw new Error('the disk of rank 1 is full');
  }
}
if (context.rank === 0) console.log(`done after step ${step}`);
await context.close();

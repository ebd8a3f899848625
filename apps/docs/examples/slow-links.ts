import { dist, init, manualSeed, nn, optim, rand } from 'shardwise';

const context = await init();
const { rank } = context;

manualSeed(1);
const network = new nn.Sequential(new nn.Linear(4, 32), new nn.Tanh(), new nn.Linear(32, 1));
const strategy = dist.diloco({ every: 10, bits: 4 });
const model = await dist.parallelize(network, strategy);
const optimizer = new optim.AdamW(network.parameters(), { lr: 0.01 });

manualSeed(2 + rank); // each rank draws its own batches
for (let step = 1; step <= 40; step++) {
  const x = rand([16, 4]);
  optimizer.zeroGrad();
  const loss = model
    .forward(x)
    .sub(x.sum(1, { keepDim: true }))
    .square()
    .mean();
  loss.backward();
  await optimizer.step(); // every tenth update is followed by an outer step
  if (step % 10 === 0) console.log(`rank ${rank}, step ${step}: ${(await loss.item()).toFixed(4)}`);
}
console.log(`rank ${rank}: ${strategy.outer.outerSteps} outer steps`); // prints rank 0: 4 outer steps
if (rank === 0) console.log(dist.explain(model.plan));
await context.close();

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
if (rank === 0) {
  const [, traffic = ''] = dist.explain(model.plan).split('outer steps: ');
  console.log(traffic.split('\n\n')[0]); // prints every 10 updates
}
await context.close();

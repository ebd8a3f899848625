import { dist, init, nn, optim, randn } from 'shardwise';

const context = await init(); // this program is now a rank
const network = new nn.Linear(8, 8);
const model = await dist.parallelize(network, dist.ddp());
const optimizer = new optim.SGD(network.parameters(), { lr: 1 });
for (let step = 1; step <= 100; step += 1) {
  const x = randn([64, 8]);
  const loss = nn.functional.mseLoss(model.forward(x), x);
  optimizer.zeroGrad();
  loss.backward();
  await optimizer.step();
  if (step > 99) console.log(step, await loss.item()); // prints 100
}
await context.close();

import { dist, init, manualSeed, nn, optim, rand } from 'shardwise';

const context = await init();
const { rank } = context;

// Each rank has a batch more than the one before it.
const own = Array.from({ length: 2 + rank }, () => rand([8, 4]));

manualSeed(1);
const network = new nn.Sequential(new nn.Linear(4, 16), new nn.Tanh(), new nn.Linear(16, 1));
const model = await dist.parallelize(network, dist.fsdp());
const optimizer = new optim.SGD(network.parameters(), { lr: 0.1 });

let steps = 0;
for await (const { batch, weight } of dist.joinBatches(own)) {
  optimizer.zeroGrad();
  model.forward(batch).square().mean().mul(weight).backward(); // weight 0: no batch any more
  await optimizer.step();
  steps += 1;
}
console.log(`rank ${rank}: ${own.length} batches, ${steps} steps`); // prints rank 0: 2 batches
await context.close();

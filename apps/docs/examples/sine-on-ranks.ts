import { data, dist, fromArray, init, manualSeed, nn, optim } from 'shardwise';

const context = await init(); // who am I?
const { rank, worldSize } = context;

const points = Float32Array.from({ length: 256 }, (_, i) => i / 128 - 1);
const x = data.ndArray(points, [256, 1]);
const y = data.ndArray(
  points.map((value) => Math.sin(4 * value)),
  [256, 1],
);
const dataset = new data.ArrayDataset({ x, y });
const sampler = new data.DistributedSampler({ dataset, numReplicas: worldSize, rank }); // my part
const loader = new data.DataLoader({ dataset, batchSize: Math.floor(64 / worldSize), sampler });

manualSeed(1);
const network = new nn.Sequential(new nn.Linear(1, 32), new nn.Tanh(), new nn.Linear(32, 1));
const model = await dist.parallelize(network, dist.ddp()); // averages gradients over the ranks
const optimizer = new optim.AdamW(network.parameters(), { lr: 0.02 });

let last = Infinity;
for (let epoch = 0; epoch < 75; epoch += 1) {
  sampler.setEpoch(epoch);
  for await (const batch of loader) {
    const loss = nn.functional.mseLoss(model.forward(fromArray(batch.x)), fromArray(batch.y));
    optimizer.zeroGrad();
    loss.backward();
    await optimizer.step();
    last = await loss.item();
  }
}
console.log(`fitted on ${worldSize} ranks:`, last < 0.02); // prints ranks: true
await context.close();

import { dist, fromData, init, manualSeed, nn, optim } from 'shardwise';

const context = await init();
const { rank, worldSize } = context;
manualSeed(1);
const network = new nn.Sequential(new nn.Linear(4, 16), new nn.Tanh(), new nn.Linear(16, 3));
const model = await dist.parallelize(network, dist.ddp());
const optimizer = new optim.AdamW(network.parameters(), { lr: 0.01 });
for (let step = 1; step <= 100; step += 1) {
  const x = Float32Array.from({ length: 32 }, (_, at) => Math.sin(at * 3 + rank * 7 + step));
  const y = Int32Array.from({ length: 8 }, (_, row) => (row + rank) % 3);
  const output = model.forward(fromData(x, [8, 4], 'f32'));
  const loss = nn.functional.crossEntropy(output, fromData(y, [8], 'i32')).div(worldSize);
  optimizer.zeroGrad();
  loss.backward();
  await optimizer.step();
}
await context.close();

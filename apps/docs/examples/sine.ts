import { fromData, init, manualSeed, nn, optim } from 'shardwise';

const context = await init();

// 256 points of a sine.
const points = Float32Array.from({ length: 256 }, (_, i) => i / 128 - 1);
const x = fromData(points, [256, 1], 'f32');
const y = fromData(
  points.map((value) => Math.sin(4 * value)),
  [256, 1],
  'f32',
);

manualSeed(1);
const model = new nn.Sequential(new nn.Linear(1, 32), new nn.Tanh(), new nn.Linear(32, 1));
const optimizer = new optim.AdamW(model.parameters(), { lr: 0.02 });

for (let step = 1; step <= 300; step += 1) {
  const loss = nn.functional.mseLoss(model.forward(x), y); // the forward pass
  optimizer.zeroGrad();
  loss.backward(); // a gradient for each parameter
  await optimizer.step(); // computes all of it, and updates the parameters
  if (step === 300) console.log('fitted:', (await loss.item()) < 0.01); // prints fitted: true
}
await context.close();

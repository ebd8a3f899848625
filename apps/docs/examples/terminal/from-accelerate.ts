import { accelerate } from '@shardwise/compat';
import { data, fromArray, init, manualSeed, nn, noGrad, optim } from 'shardwise';

const context = await init();
const accelerator = new accelerate.Accelerator({ context, gradientAccumulationSteps: 2 });

const points = Float32Array.from({ length: 500 }, (_, i) => i / 250 - 1);
const dataset = new data.ArrayDataset({
  x: data.ndArray(points, [500, 1]),
  y: data.ndArray(
    points.map((value) => Math.sin(4 * value)),
    [500, 1],
  ),
});

manualSeed(1);
const { model, optimizer, dataLoader } = await accelerator.prepare({
  model: new nn.Sequential(new nn.Linear(1, 64), new nn.Tanh(), new nn.Linear(64, 1)),
  optimizer: (parameters) => new optim.AdamW([...parameters], { lr: 0.05 }),
  dataLoader: { dataset, batchSize: 16, shuffle: true },
});
for (let epoch = 0; epoch < 20; epoch++) {
  for await (const { x, y } of dataLoader) {
    await accelerator.accumulate(async () => {
      const loss = nn.functional.mseLoss(model.forward(fromArray(x)), fromArray(y));
      accelerator.backward(loss);
      await optimizer.step();
      optimizer.zeroGrad();
    });
  }
}

model.eval();
let rows = 0;
let sum = 0;
for await (const { x, y } of accelerator.prepareDataLoader({ dataset, batchSize: 16 })) {
  const errors = noGrad(() => model.forward(fromArray(x)).sub(fromArray(y)).square());
  const all = accelerator.gatherForMetrics(errors);
  rows += all.shape[0] ?? 0;
  sum += await all.sum().item();
}
accelerator.print(`${rows} rows, error ${sum / rows < 0.05 ? 'below' : 'above'} 0.05`);
await context.close();

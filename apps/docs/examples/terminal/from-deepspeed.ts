import { deepspeed } from '@shardwise/compat';
import { data, fromArray, manualSeed, nn } from 'shardwise';

const points = Float32Array.from({ length: 512 }, (_, i) => i / 256 - 1);
const dataset = new data.ArrayDataset({
  x: data.ndArray(points, [512, 1]),
  y: data.ndArray(
    points.map((value) => Math.sin(4 * value)),
    [512, 1],
  ),
});

manualSeed(1);
const { engine, dataLoader } = await deepspeed.initialize({
  model: new nn.Sequential(new nn.Linear(1, 64), new nn.Tanh(), new nn.Linear(64, 1)),
  // Or the path of a file, as 'ds_config.json'.
  config: {
    train_batch_size: 64,
    gradient_accumulation_steps: 2,
    optimizer: { type: 'AdamW', params: { lr: 0.05 } },
    scheduler: { type: 'WarmupLR', params: { warmup_num_steps: 10, warmup_type: 'linear' } },
    zero_optimization: { stage: 2 },
    bf16: { enabled: true },
  },
  trainingData: dataset,
});
if (dataLoader === undefined) throw new RangeError('no training data');

let latest = Number.NaN;
for (let epoch = 0; epoch < 20; epoch++) {
  for await (const { x, y } of dataLoader) {
    const loss = nn.functional.mseLoss(engine.forward(fromArray(x)), fromArray(y));
    engine.backward(loss);
    await engine.step();
    latest = await loss.item();
  }
}
if (engine.context.rank === 0) {
  console.log(`loss ${latest < 0.05 ? 'below' : 'above'} 0.05 after ${engine.globalSteps} updates`);
}
await engine.destroy();

import { dist, fromData, manualSeed, nn, optim, survive } from 'shardwise';

const BATCH = 64;

await survive(async (context) => {
  const { rank, worldSize } = context;
  manualSeed(1);
  const model = new nn.Sequential(new nn.Linear(1, 32), new nn.Tanh(), new nn.Linear(32, 1));
  const network = await dist.parallelize(model, dist.ddp());
  const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
  const schedule = new optim.LearningRateScheduler(optimizer, (step) => 1 / (1 + step / 100));
  let step = await context.resume({ model, optimizer, states: { schedule } });
  while (step < 200) {
    // The samples of this step, shared out among the ranks that are there.
    const first = step * BATCH;
    const own = Array.from({ length: BATCH }, (_, i) => first + i).filter(
      (sample) => sample % worldSize === rank,
    );
    const points = Float32Array.from(own, (sample) => (sample % 257) / 128 - 1);
    const x = fromData(points, [own.length, 1], 'f32');
    const y = fromData(
      points.map((point) => Math.sin(4 * point)),
      [own.length, 1],
      'f32',
    );
    const loss = nn.functional.mseLoss(network.forward(x), y);
    optimizer.zeroGrad();
    loss.backward();
    await optimizer.step();
    schedule.step();
    step += 1;
    context.report({ step, loss: await loss.item(), samples: own.length });
    await context.commit(step);
  }
});

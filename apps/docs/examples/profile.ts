import { init, manualSeed, nn, optim, profiler, randn } from 'shardwise';

const context = await init();
const recording = profiler.profile({
  schedule: profiler.schedule({ wait: 2, warmup: 1, active: 3, repeat: 1 }),
  onTraceReady: (profile) => {
    if (context.rank !== 0) return;
    const products = profile.rows.filter(({ op }) => op === 'matmul');
    const flops = products.reduce((sum, row) => sum + row.flops, 0) / profile.steps;
    console.log(`${flops / 1e6} million operations in matmul`); // prints 10.48576 million operations in matmul
    console.log(String(profile));
  },
});
manualSeed(0);
const model = new nn.Sequential(new nn.Linear(128, 256), new nn.GELU(), new nn.Linear(256, 128));
const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
for (let step = 0; step < 8; step++) {
  const x = randn([32, 128]);
  const loss = model.forward(x).sub(x).square().mean();
  loss.backward();
  await optimizer.step();
  optimizer.zeroGrad();
  recording.step();
}
await recording.stop();
await context.close();

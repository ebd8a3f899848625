import { init, manualSeed, nn, optim, randn } from 'shardwise';

const context = await init();
manualSeed(1);
const model = new nn.Sequential(new nn.Linear(8, 32), new nn.ReLU(), new nn.Linear(32, 1));
const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-2 });
const [x, y] = [randn([64, 8]), randn([64, 1])];

const losses: number[] = [];
for (let step = 0; step < 50; step += 1) {
  const loss = nn.functional.mseLoss(model.forward(x), y);
  optimizer.zeroGrad();
  loss.backward();
  await optimizer.step();
  losses.push(await loss.item());
}
console.log('the loss falls:', (losses.at(-1) ?? Infinity) < (losses[0] ?? 0)); // prints the loss falls: true
await context.close();

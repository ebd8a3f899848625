import { init, nn, ones } from 'shardwise';

const context = await init();
const block = (): nn.Sequential =>
  new nn.Sequential(new nn.Linear(64, 256), new nn.GELU(), new nn.Linear(256, 64));
const blocks = new nn.Sequential(...Array.from({ length: 6 }, block));

const bytes = 6 * 2 ** 20;
const policy = nn.activationMemoryBudget({
  bytes,
  onChoice({ plannedBytes, plannedBytesOfNone, recomputed }) {
    console.log(plannedBytesOfNone <= bytes); // prints false
    console.log(plannedBytes <= bytes); // prints true
    console.log(new Set(recomputed.map(({ op }) => op))); // prints Set(1) { 'gelu' }
  },
});
const x = ones([512, 64]);
const loss = nn
  .checkpoint(() => blocks.forward(x), { policy })
  .square()
  .mean();
loss.backward();
await loss.item();
await context.close();

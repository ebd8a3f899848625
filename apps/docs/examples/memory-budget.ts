import { dist, init, nn, ones } from 'shardwise';

const context = await init();
const block = (): nn.Sequential =>
  new nn.Sequential(new nn.Linear(64, 256), new nn.GELU(), new nn.Linear(256, 64));
const blocks = new nn.Sequential(...Array.from({ length: 6 }, block));

const bytes = 4 * 2 ** 20;
const policy = nn.activationMemoryBudget({
  bytes,
  // A device that moves some values sooner than it computes them.
  flopsPerSecond: 5e10,
  pageBytesPerSecond: 4e9,
  onChoice({ plannedBytes, plannedBytesOfNone, recomputed, offloaded }) {
    console.log(plannedBytesOfNone <= bytes); // prints false
    console.log(plannedBytes <= bytes); // prints true
    console.log(new Set(recomputed.map(({ op }) => op))); // prints Set(1) { 'gelu' }
    console.log(new Set(offloaded.map(({ op }) => op))); // prints Set(1) { 'add' }
  },
});
const x = ones([512, 64]);
const loss = nn
  .checkpoint(() => blocks.forward(x), { policy, pages: dist.hostPages() })
  .square()
  .mean();
loss.backward();
await loss.item();
await context.close();

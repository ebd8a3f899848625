import { init, nn, ones, profiler } from 'shardwise';

const context = await init();
// For the backward pass a block keeps its input, and its hidden values before and after GELU.
const blocks = Array.from(
  { length: 4 },
  () => new nn.Sequential(new nn.Linear(64, 256), new nn.GELU(), new nn.Linear(256, 64)),
);

let kept = ones([32, 64]);
for (const block of blocks) kept = block.forward(kept);

let recomputed = ones([32, 64]);
for (const block of blocks) {
  const input = recomputed;
  recomputed = nn.checkpoint(() => block.forward(input)); // keeps its input only
}
const [all, few] = [
  profiler.activationBytes(kept.mean()),
  profiler.activationBytes(recomputed.mean()),
];
console.log(`${all / 1024} KiB, or ${few / 1024} KiB with recomputation`); // prints 280 KiB, or 24 KiB
await context.close();

import { readFileSync } from 'node:fs';
import { elementCount } from '@shardwise/core/extend';
import { dist, fromData, init, manualSeed, nn, noGrad, optim, type Tensor } from 'shardwise';

// large-model.ts LAYERS WIDTH RATE
// Makes three steps of SGD on a stack of Linear(WIDTH, WIDTH), with DDP if there are several ranks. Prints the losses,
// the peak memory, and how many of the checked weights were not updated correctly.

const STEPS = 3;
const BATCH = 2;

const [layers = NaN, width = NaN, rate = NaN] = process.argv.slice(2).map(Number);
const context = await init();
const { rank, device } = context;
manualSeed(0);
const stack: nn.Linear[] = [];
for (let layer = 0; layer < layers; layer++) {
  const linear = new nn.Linear(width, width, { bias: false });
  // Only one layer's initial weights at a time are on the heap.
  await linear.weight.realize();
  stack.push(linear);
}
const model = await dist.parallelize(new nn.Sequential(...stack), dist.ddp());
const optimizer = new optim.SGD(model.module.parameters(), { lr: rate });

const losses: number[] = [];
let wrongUpdates = 0;
for (let step = 0; step < STEPS; step++) {
  const values = Float32Array.from({ length: BATCH * width }, (_, i) => Math.sin(i + rank));
  const x = fromData(values, [BATCH, width], 'f32');
  const before = await lastRows(({ weight }) => weight);
  optimizer.zeroGrad();
  const loss = model.forward(x).sub(x).square().mean();
  loss.backward();
  await optimizer.step();
  losses.push(await loss.item());
  const gradients = await lastRows(({ weight }) => weight.grad);
  const after = await lastRows(({ weight }) => weight);
  for (const [index, value] of after.entries()) {
    const [was = NaN, gradient = 0] = [before[index], gradients[index]];
    const isRight = Math.abs(value - (was - rate * gradient)) < 1e-7;
    if (!isRight || gradient === 0) wrongUpdates += 1;
  }
}
const status = readFileSync('/proc/self/status', 'utf8');
console.log(
  JSON.stringify({
    elements: stack.reduce((sum, { weight }) => sum + elementCount(weight.shape), 0),
    losses,
    wrongUpdates,
    peakBytes: device.usage?.().peakBytes,
    residentPeakBytes: 1024 * Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]),
  }),
);
await context.close();

/** Returns the last row of a tensor of each layer. */
async function lastRows(of: (linear: nn.Linear) => Tensor | null): Promise<readonly number[]> {
  const rows = noGrad(() => stack.map((linear) => of(linear)?.select(0, width - 1)));
  const data = await Promise.all(rows.map(async (row) => [...((await row?.data()) ?? [])]));
  return data.flat().map(Number);
}

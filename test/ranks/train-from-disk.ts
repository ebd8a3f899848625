import { readFileSync } from 'node:fs';
import { filePages } from '@shardwise/core/node';
import { elementCount } from '@shardwise/core/extend';
import { cpu, dist, fromData, init, manualSeed, nn, optim } from 'shardwise';

// node train-from-disk.ts DIRECTORY LAYERS WIDTH
// This process is one rank. It makes three steps of a model whose parameters and moments are in files.

const STEPS = 3;
const BATCH = 4;

const [directory = '', layers = '', widthText = ''] = process.argv.slice(2);
const width = Number(widthText);
const device = await cpu();
const context = await init({ device });
const start = performance.now();

manualSeed(0);
await using files = await filePages(directory);
const strategy = dist.fsdp({ pages: files });
const model = dist.constructSharded(
  () =>
    new nn.Sequential(...Array.from({ length: Number(layers) }, () => new nn.Linear(width, width))),
  strategy,
);
const elements = model.parameters().reduce((sum, { shape }) => sum + elementCount(shape), 0);
const parallel = await dist.parallelize(model, strategy);
const adam = new optim.AdamW(model.parameters(), { lr: 1e-5 });
const optimizer = new dist.OffloadedOptimizer(model, adam, { states: files, parameters: files });
const buildSeconds = secondsSince(start);

const losses: number[] = [];
const stepSeconds: number[] = [];
for (let step = 0; step < STEPS; step++) {
  const stepStart = performance.now();
  optimizer.zeroGrad();
  const values = Float32Array.from({ length: BATCH * width }, (_, i) => Math.sin(i + context.rank));
  const x = fromData(values, [BATCH, width], 'f32');
  const loss = parallel.forward(x).square().mean();
  loss.backward();
  await optimizer.step();
  losses.push(await loss.item());
  stepSeconds.push(secondsSince(stepStart));
}
const { peakBytes } = device.usage();
const found = {
  elements,
  losses,
  buildSeconds,
  stepSeconds,
  peakBytes,
  residentPeakBytes: resident(),
};
console.log(JSON.stringify(found));
await context.close();

function secondsSince(time: number): number {
  return (performance.now() - time) / 1000;
}

/** Returns the peak resident memory of this process. */
function resident(): number {
  if (process.platform !== 'linux') return process.resourceUsage().maxRSS * 1024;
  const [, kibibytes = ''] =
    /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return Number(kibibytes) * 1024;
}

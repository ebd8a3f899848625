/**
 * One step of a model of 20 × Linear(2000, 2000) on two ranks, and the memory of rank 0 after each
 * phase: with a ZeroRedundancyOptimizer, which keeps Adam's states of a half of the parameters on
 * each rank, and with Adam, which keeps those of all:
 *
 *   shardwise run --nproc 2 examples/zero-redundancy-optimizer/train.ts
 *   shardwise run --nproc 2 examples/zero-redundancy-optimizer/train.ts --optimizer Adam
 */
import {
  defaultGenerator,
  dist,
  fromData,
  init,
  manualSeed,
  nn,
  noGrad,
  optim,
  type Tensor,
} from 'shardwise';
import { readOptions } from './options.ts';

const options = readOptions(process.argv.slice(2));
const { layers, width } = options;
const context = await init();
const { rank } = context;

function print(line: string): void {
  if (rank === 0) console.log(line);
}

/** Prints the peak memory of the device, in MB of a million bytes. Parameters lie on the host until they are used. */
function printPeakMemory(when: string): void {
  const { peakBytes } = dist.memory({ model });
  print(`Max memory allocated ${when}: ${((peakBytes ?? 0) / 1e6).toFixed(2)} MB`);
}

/** Makes a random batch. Shape: -> [batchSize, width]. */
function randomBatch(): Tensor {
  const rows = options['batch-size'];
  return fromData(defaultGenerator().randn(rows * width), [rows, width], 'f32');
}

print(`=== ${options.optimizer} ===`);
manualSeed(0);
const model = new nn.Sequential(
  ...Array.from({ length: layers }, () => new nn.Linear(width, width)),
);
printPeakMemory('after creating local model');

const parallel = await dist.parallelize(model, dist.ddp());
printPeakMemory('after creating DDP');

const settings = { lr: 0.01 };
const optimizer =
  options.optimizer === 'Adam'
    ? new optim.Adam(model.parameters(), settings)
    : new dist.ZeroRedundancyOptimizer(model.parameters(), optim.Adam, settings);

const outputs = parallel.forward(randomBatch());
const loss = nn.functional.mseLoss(outputs, randomBatch());
loss.backward();
print(`loss: ${(await loss.item()).toFixed(6)}`);
printPeakMemory('before optimizer step()');

await optimizer.step();
printPeakMemory('after optimizer step()');

const { parameterBytes, gradientBytes, optimizerBytes } = dist.memory({ model, optimizer });
const megabytes = [parameterBytes, gradientBytes, optimizerBytes].map((bytes) =>
  (bytes / 1e6).toFixed(2),
);
print(`parameters, gradients, optimizer states: ${megabytes.join(', ')} MB`);

const sum = noGrad(() =>
  model
    .parameters()
    .map((parameter) => parameter.sum())
    .reduce((total, each) => total.add(each)),
);
print(`params sum is: ${(await sum.item()).toFixed(4)}`);
await context.close();

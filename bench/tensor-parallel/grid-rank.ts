import { parentPort, workerData } from 'node:worker_threads';
import { cpu, dist, fromData, manualSeed, nn, optim, profiler, setRank } from 'shardwise';
import { blockSizes, gridOf } from './grids.ts';
import type { GridRankData, GridRound } from './messages.ts';
import { rankMemory } from './rank-memory.ts';

// This thread is one rank of a grid. It trains some transformer blocks for two steps, then reports what it kept and
// sent.

const { grid: name, axes, layers, rank, world }: GridRankData = workerData;
const group = dist.transports.joinThreadsWorld(world, rank);
const region = world.regions[rank];
if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
const mesh = await dist.createMesh(group, axes);
setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });
const grid = gridOf[name]();
manualSeed(0);
const blocks: dist.styles.GridBlock[] = [];
for (let layer = 0; layer < layers; layer++) blocks.push(await ownBlock());
const model = new nn.ModuleList(blocks);
const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
let messageBytes = 0;
for (let step = 0; step < 2; step++) messageBytes = await trainStep();
const round: GridRound = { ...rankMemory({ model, optimizer }), messageBytes };
parentPort?.postMessage(round);
group.close();

/** Makes a block from this rank's parts of the layers. The whole layers are freed afterwards. */
async function ownBlock(): Promise<dist.styles.GridBlock> {
  const { channels, heads } = blockSizes;
  const whole = {
    norm1: new nn.LayerNorm(channels),
    attention: new nn.MultiheadAttention(channels, heads),
    norm2: new nn.LayerNorm(channels),
    up: new nn.Linear(channels, 4 * channels),
    down: new nn.Linear(4 * channels, channels),
  };
  const block = await dist.styles.GridBlock.from(whole, grid);
  for (const module of Object.values(whole)) {
    for (const parameter of module.parameters()) parameter.dispose();
  }
  return block;
}

/** Trains a step, and returns the bytes of its messages. */
async function trainStep(): Promise<number> {
  const { batch, context, channels } = blockSizes;
  const before = profiler.statistics().collectiveBytes;
  const sizeOf = (axis: string): number => mesh.group(axis).size;
  const rows = batch / grid.rows.reduce((product, axis) => product * sizeOf(axis), 1);
  const shape = [rows, context, channels / sizeOf(grid.features)];
  const count = shape.reduce((product, size) => product * size, 1);
  let x = fromData(
    Float32Array.from({ length: count }, (_, i) => Math.sin(i)),
    shape,
    'f32',
  ).requiresGrad_();
  optimizer.zeroGrad();
  for (const block of model) x = block.forward(x);
  const loss = x.square().sum();
  loss.backward();
  await optimizer.step();
  await loss.item();
  return profiler.statistics().collectiveBytes - before;
}

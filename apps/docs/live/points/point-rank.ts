// A rank of a training on points of a line or a plane.
import { dist, fromData, nn, noGrad, optim } from 'shardwise/browser';
import { LiveRank } from '../rank/live-rank.ts';
import {
  type PointLook,
  type PointTask,
  probes,
  rowsOfRank,
  sineRows,
  spiralRows,
} from './point-task.ts';

const live = await LiveRank.join();
const { rank, worldSize } = live.context;
const task = live.task as PointTask;
const isSine = task.model === 'sine';
const rows = isSine ? sineRows() : spiralRows();
const own = rowsOfRank(rows, rank, worldSize);
const width = isSine ? 1 : 2;
const x = fromData(
  Float32Array.from(own.flatMap((row) => [...rows.x.subarray(row * width, (row + 1) * width)])),
  [own.length, width],
  'f32',
);
const targets = isSine
  ? fromData(
      Float32Array.from(own, (row) => rows.y[row] ?? 0),
      [own.length, 1],
      'f32',
    )
  : fromData(
      Int32Array.from(own, (row) => rows.y[row] ?? 0),
      [own.length],
      'i32',
    );

const network = new nn.Sequential(
  new nn.Linear(width, 48),
  new nn.Tanh(),
  new nn.Linear(48, 48),
  new nn.Tanh(),
  new nn.Linear(48, isSine ? 1 : 2),
);
const strategies = {
  ddp: () => dist.ddp(),
  'zero-2': () => dist.zero({ stage: 2 }),
  fsdp: () => dist.fsdp(),
};
const model = await dist.parallelize(network, strategies[task.strategy]());
const optimizer = new optim.AdamW(network.parameters(), { lr: 0.01 });
const asked = probes(task.model);
const grid = fromData(asked, [asked.length / width, width], 'f32');

/**
 * Returns the model's value at each place of the drawing, which for spirals is the probability of the second spiral. It
 * is a collective.
 */
async function look(): Promise<PointLook> {
  const output = noGrad(() => {
    const raw = model.forward(grid);
    return isSine ? raw : raw.softmax(-1).slice(1, 1, 2);
  });
  const values = await output.data();
  return { values: rank === 0 ? Array.from(values, Number) : [], right: await countRight() };
}

async function countRight(): Promise<number> {
  if (isSine) return 0;
  const classes = await noGrad(() => model.forward(x).argMax(1)).data();
  return own.filter((row, index) => Number(classes[index]) === rows.y[row]).length;
}

async function update(): Promise<number> {
  const output = model.forward(x);
  const loss = isSine
    ? nn.functional.mseLoss(output, targets)
    : nn.functional.crossEntropy(output, targets);
  optimizer.zeroGrad();
  loss.backward();
  await optimizer.step();
  return loss.item();
}

await live.train({
  network,
  optimizer,
  plan: model.plan,
  update,
  look,
  lookSteps: 10,
  checkpointSteps: 20,
});

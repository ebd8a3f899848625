// A rank of a pipeline. It learns two spirals with layers that are on several ranks.
import { dist, fromData, nn, optim, type Tensor } from 'shardwise/browser';
import { spiralRows } from '../points/point-task.ts';
import { LiveRank } from '../rank/live-rank.ts';
import type { PipelineTask } from './pipeline-task.ts';

const WIDTH = 96;
/** The number of hidden layers is enough for the eight stages of four ranks with two stages each. */
const HIDDEN_LAYERS = 7;
const live = await LiveRank.join();
const { schedule, microbatches } = live.task as PipelineTask;

const rows = spiralRows();
const x = fromData(rows.x, [rows.count, 2], 'f32');
const classes = fromData(Int32Array.from(rows.y), [rows.count], 'i32');
const network = new nn.Sequential(
  new nn.Linear(2, WIDTH),
  new nn.Tanh(),
  ...Array.from({ length: HIDDEN_LAYERS }, () => [
    new nn.Linear(WIDTH, WIDTH),
    new nn.Tanh(),
  ]).flat(),
  new nn.Linear(WIDTH, 2),
);
const model = await dist.parallelize(
  network,
  dist.pipeline({
    schedule,
    microbatches,
    axis: 'dp',
    loss: (output: Tensor, targets: Tensor) => nn.functional.crossEntropy(output, targets),
  }),
);
const optimizer = new optim.AdamW(network.parameters(), { lr: 0.002 });

async function update(): Promise<number> {
  const loss = model.forward(x, classes);
  optimizer.zeroGrad();
  loss.backward();
  await optimizer.step();
  return loss.item();
}

await live.train({
  network,
  optimizer,
  update,
  look: async () => null,
  lookSteps: 5,
  checkpointSteps: 20,
});

// A rank of a training of experts. The data are points of a plane with patches, and the model predicts their class.
import { dist, fromData, Generator, nn, optim, type Tensor } from 'shardwise/browser';
import { LiveRank } from '../rank/live-rank.ts';
import { CLASSES, type ExpertLook, type ExpertTask, PATCHES, TOKENS } from './expert-task.ts';

const WIDTH = 32;
const live = await LiveRank.join();
const { rank, worldSize } = live.context;
const { experts, balance, capacity } = live.task as ExpertTask;

class Router extends nn.Module {
  readonly into = new nn.Linear(2, WIDTH);
  readonly layer: nn.MixtureOfExperts;
  readonly out = new nn.Linear(WIDTH, CLASSES);

  constructor() {
    super();
    this.layer = new nn.MixtureOfExperts(WIDTH, WIDTH, experts, {
      gate: nn.switchGate(capacity === 0 ? {} : { capacity: { factor: capacity } }),
      axes: ['dp'],
      ...(balance === 'loss' ? { balance: { kind: 'switch', coefficient: 0.05 } } : {}),
      ...(balance === 'bias' ? { bias: { rate: 0.02 } } : {}),
    });
  }

  /** Returns the logits of the classes. Shape: points [T, 2] -> logits [T, CLASSES]. */
  forward(points: Tensor): Tensor {
    const hidden = this.into.forward(points).tanh();
    return this.out.forward(hidden.add(this.layer.forward(hidden)));
  }
}

const own = TOKENS / worldSize;
const network = new Router();
const model = await dist.parallelize(
  network,
  dist.expertParallel({ axis: 'dp', k: 1, tokens: own }),
);
const optimizer = new optim.AdamW(network.parameters(), { lr: 0.01 });

/**
 * Returns this rank's points of a step, from -1 to 1, and their classes. A step has the same points on any number of
 * ranks.
 */
function batch(step: number): { readonly points: Tensor; readonly classes: Tensor } {
  const places = new Generator(step)
    .rand(2 * TOKENS)
    .slice(2 * own * rank, 2 * own * (rank + 1))
    .map((share) => 2 * share - 1);
  const patch = (value: number): number => Math.floor(((value + 1) / 2) * PATCHES);
  const classes = Int32Array.from({ length: own }, (_, row) => {
    const [column, line] = [patch(places[2 * row] ?? 0), patch(places[2 * row + 1] ?? 0)];
    return (column + 3 * line + column * line) % CLASSES;
  });
  return { points: fromData(places, [own, 2], 'f32'), classes: fromData(classes, [own], 'i32') };
}

async function update(step: number): Promise<number> {
  const { points, classes } = batch(step);
  const loss = nn.functional.crossEntropy(model.forward(points), classes);
  optimizer.zeroGrad();
  loss.add(nn.auxiliaryLoss(network)).backward();
  if (balance === 'bias') nn.updateExpertBias(network, ['dp']);
  await optimizer.step();
  return loss.item();
}

async function look(): Promise<ExpertLook> {
  const { load, imbalance, dropRate } = await network.layer.routerStatistics();
  return { load, imbalance, dropRate };
}

await live.train({ network, optimizer, update, look, lookSteps: 5, checkpointSteps: 25 });

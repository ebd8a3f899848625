import type { ThreadsWorld } from '@shardwise/collectives';
import { fromData, LineMesh, manualSeed, nn, optim, setRank } from '@shardwise/core';
import { parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { checkpoints } from 'shardwise';
import { join } from './join.ts';
import { localSgd } from './local-sgd.ts';

export interface Part {
  readonly first: number;
  readonly stop: number;
  /** The checkpoint to resume from. `to` is where to save one. */
  readonly from?: string;
  readonly to?: string;
}

/** Makes steps `first` to `stop` of a training. Returns the losses. */
export async function main(context: RankContext<ThreadsWorld, Part>): Promise<readonly number[]> {
  const { rank, data } = context;
  const { group, device } = await join(context);
  setRank({ device, mesh: new LineMesh('dp', group) });
  manualSeed(rank);
  const model = new nn.Sequential(new nn.Linear(3, 5), new nn.Tanh(), new nn.Linear(5, 1));
  const strategy = localSgd({ every: 3 });
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.AdamW(model.parameters(), { lr: 0.05 });
  const states = { localSgd: strategy.steps };
  if (data.from !== undefined) {
    const checkpoint = await checkpoints.load(data.from);
    await checkpoints.loadModel(checkpoint, model);
    await checkpoints.loadOptimizer(checkpoint, model, optimizer);
    await checkpoints.loadStates(checkpoint, states, { group });
  }
  const losses: number[] = [];
  for (let step = data.first; step < data.stop; step++) {
    const x = Float32Array.from({ length: 4 * 3 }, (_, i) => Math.sin(i + 7 * step + 3 * rank));
    optimizer.zeroGrad();
    const loss = parallel
      .forward(fromData(x, [4, 3], 'f32'))
      .square()
      .mean();
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  if (data.to !== undefined) {
    await checkpoints.save(data.to, { step: data.stop, model, optimizer, states }, { group });
  }
  return losses;
}

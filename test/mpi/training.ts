import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { fromData, LineMesh, manualSeed, nn, optim, setRank } from '@shardwise/core';
import type { ProcessGroup } from '@shardwise/core/spec';
import { ddp, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';

/** The results of a rank: the loss of each step, and the parameters after the last step. */
export const training = z.object({
  losses: z.array(z.number()),
  parameters: z.array(z.array(z.number())),
});

const STEPS = 5;

export async function onThreads({
  rank,
  world,
}: RankContext<ThreadsWorld>): Promise<z.infer<typeof training>> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
  return train(joinThreadsWorld(world, rank), await cpu({ memory: world.memory, ...region }));
}

/** Trains a small network and averages its gradients over the ranks. Each rank has its own examples. */
export async function train(
  group: ProcessGroup,
  device: Awaited<ReturnType<typeof cpu>>,
): Promise<z.infer<typeof training>> {
  const { rank } = group;
  setRank({ device, mesh: new LineMesh('dp', group) });
  manualSeed(rank);
  const model = new nn.Sequential(new nn.Linear(4, 64), new nn.ReLU(), new nn.Linear(64, 1));
  const parallel = await parallelize(model, ddp());
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.05 });
  const losses: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    const values = Float32Array.from({ length: 32 }, (_, i) => Math.sin(i + 32 * (rank + step)));
    const x = fromData(values, [8, 4], 'f32');
    optimizer.zeroGrad();
    const loss = nn.functional.mseLoss(parallel.forward(x), x.sum(1, { keepDim: true })).retain();
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  const parameters: number[][] = [];
  for (const parameter of model.parameters()) {
    parameters.push([...(await parameter.data())].map(Number));
  }
  group.close();
  return { losses, parameters };
}

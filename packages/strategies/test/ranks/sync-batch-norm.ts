import { fromData, manualSeed, nn, optim, type Strategy, type Tensor } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

export const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
};

const numbers = z.array(z.number());
export const training = z.object({
  losses: numbers,
  /** The statistics and parameters at the end. `average` is their average over the steps. */
  state: z.record(z.string(), numbers),
  average: z.record(z.string(), numbers),
  /** The outputs of evaluation with the averaged parameters, and then with the parameters themselves. */
  evaluated: z.array(numbers),
});
export type Training = z.infer<typeof training>;
export const trainings = z.record(z.string(), training);

const [items, steps] = [12, 4];

/** Returns this rank's part of a batch. Shape: -> [items / size, 2, 3, 2]. */
function batch(step: number, { rank, size }: Pick<RankContext, 'rank' | 'size'>): Tensor {
  const share = items / size;
  const values = Float32Array.from({ length: share * 12 }, (_, i) =>
    Math.sin((rank * share * 12 + i) * 1.7 + step),
  );
  return fromData(values, [share, 2, 3, 2], 'f32');
}

export function build(): nn.Sequential {
  manualSeed(5);
  const model = new nn.Sequential(
    new nn.Conv2d(2, 4, 2),
    new nn.BatchNorm2d(4),
    new nn.ReLU(),
    new nn.SyncBatchNorm(4),
    new nn.Flatten(),
    new nn.Linear(8, 3),
  );
  return nn.convertSyncBatchNorm(model);
}

/** Trains with a forward pass that may be that of a strategy. */
export async function train(
  model: nn.Sequential,
  forward: (x: Tensor) => Tensor,
  place: Pick<RankContext, 'rank' | 'size'>,
): Promise<Training> {
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.2, momentum: 0.9 });
  const averaged = new optim.AveragedWeights(model, { decay: 0.7 });
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    model.zeroGrad();
    const loss = forward(batch(step, place)).square().mean();
    loss.backward();
    await optimizer.step();
    averaged.update();
    losses.push(await loss.item());
  }
  model.eval();
  const again = new optim.AveragedWeights(model, { decay: 0.7 });
  const { weights, updates } = await averaged.stateDict();
  await again.loadStateDict({ updates, weights });
  const evaluate = async (): Promise<number[]> => [
    ...((await forward(batch(9, { rank: 0, size: 4 })).data()) as Float32Array),
  ];
  const evaluated = [await again.use(evaluate), await evaluate()];
  return { losses, state: listed(await model.stateDict()), average: listed(weights), evaluated };
}

function listed(dict: nn.StateDict): Record<string, number[]> {
  const floats = Object.entries(dict).filter(([, { dtype }]) => dtype === 'f32');
  return Object.fromEntries(
    floats.map(([name, { bytes }]) => [name, [...new Float32Array(bytes.slice().buffer)]]),
  );
}

export async function main(context: RankContext): Promise<z.infer<typeof trainings>> {
  await join(context);
  const found: z.infer<typeof trainings> = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    const model = build();
    const parallel = await parallelize(model, strategy());
    found[name] = await train(model, (x) => parallel.forward(x), context);
  }
  return found;
}

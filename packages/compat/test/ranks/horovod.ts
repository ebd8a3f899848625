import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { horovod } from '@shardwise/compat';
import { LineMesh, setRank } from '@shardwise/core';
import type { RankContext } from '@shardwise/testing/ranks';
import { dist, fromData, Generator, manualSeed, nn, optim, profiler, type Tensor } from 'shardwise';
import { z } from 'zod';

const STEPS = 3;

const trained = z.object({ losses: z.array(z.number()), parameters: z.array(z.number()) });
type Trained = z.infer<typeof trained>;
export const outcome = z.object({
  words: trained,
  horovod: trained,
  inSmallMessages: trained,
  inHalf: trained,
  /** With the sum of gradients of half a loss each, which is the mean for two ranks. */
  summed: trained,
  clipped: trained,
  clippedWords: trained,
  momenta: z.array(z.number()),
  rates: z.array(z.number()),
  messages: z.number(),
  messagesOfParts: z.number(),
});
export type Outcome = z.infer<typeof outcome>;

function network(seed: number): nn.Sequential {
  manualSeed(seed);
  return new nn.Sequential(new nn.Linear(3, 4), new nn.Tanh(), new nn.Linear(4, 2));
}

function batchOf(step: number, rank: number): Tensor {
  return fromData(new Generator(10 * step + rank).uniform(15, -2, 2), [5, 3], 'f32');
}

async function valuesOf(tensors: readonly Tensor[]): Promise<number[]> {
  const values: number[] = [];
  for (const tensor of tensors) values.push(...Array.from(await tensor.data(), Number));
  return values;
}

interface Training {
  readonly model: nn.Sequential;
  readonly forward: (x: Tensor) => Tensor;
  readonly optimizer: { step(): Promise<boolean>; zeroGrad(): void };
  readonly scale?: number;
  readonly clip?: () => void;
}

async function train(rank: number, training: Training): Promise<Trained> {
  const { model, forward, optimizer, scale = 1, clip } = training;
  const losses: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    const loss = forward(batchOf(step, rank)).square().mean();
    (scale === 1 ? loss : loss.mul(scale)).backward();
    clip?.();
    await optimizer.step();
    optimizer.zeroGrad();
    losses.push(await loss.item());
  }
  return { losses, parameters: await valuesOf(model.parameters()) };
}

const momentum = { lr: 0.1, momentum: 0.9 };

export async function main({ rank, world }: RankContext<ThreadsWorld>): Promise<Outcome> {
  const group = joinThreadsWorld(world, rank);
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  setRank({
    device: await cpu({ memory: world.memory, ...region }),
    mesh: new LineMesh('dp', group),
  });

  const byWords = async (isClipped: boolean): Promise<Trained> => {
    const model = network(0);
    const parallel = await dist.parallelize(model, dist.ddp());
    const optimizer = new optim.SGD(model.parameters(), momentum);
    const clip = (): void => void optim.clipGradNorm(model.parameters(), 0.1);
    return train(rank, {
      model,
      forward: (x) => parallel.forward(x),
      optimizer,
      ...(isClipped ? { clip } : {}),
    });
  };
  const byHorovod = async (
    options: horovod.DistributedOptimizerOptions = {},
    more: { scale?: number; isClipped?: boolean } = {},
  ): Promise<Trained> => {
    // Each rank begins with other parameters, until it gets those of rank 0.
    const model = network(rank);
    await horovod.broadcastParameters(model.parameters());
    const optimizer = new horovod.DistributedOptimizer(
      new optim.SGD(model.parameters(), momentum),
      options,
    );
    const clip = (): void => {
      optimizer.synchronize();
      optim.clipGradNorm(model.parameters(), 0.1);
    };
    const { scale, isClipped = false } = more;
    return train(rank, {
      model,
      forward: (x) => model.forward(x),
      optimizer,
      ...(scale === undefined ? {} : { scale }),
      ...(isClipped ? { clip } : {}),
    });
  };
  const counted = async (options: horovod.DistributedOptimizerOptions): Promise<number> => {
    let count = 0;
    const stop = profiler.subscribe((event) => {
      if (event.category === 'collective' && /all-?reduce/i.test(event.name)) count++;
    });
    const model = network(0);
    const own = new horovod.DistributedOptimizer(
      new optim.SGD(model.parameters(), momentum),
      options,
    );
    model.forward(batchOf(0, rank)).square().mean().backward();
    await own.step();
    stop();
    return count;
  };

  // An update that only rank 0 has made.
  const model = network(0);
  const optimizer = new optim.SGD(model.parameters(), {
    lr: rank === 0 ? 0.3 : 0.1,
    momentum: 0.9,
  });
  if (rank === 0) {
    model.forward(batchOf(0, 0)).square().mean().backward();
    await optimizer.step();
  }
  await horovod.broadcastOptimizerState(optimizer);
  const { state, paramGroups } = await optimizer.stateDict();
  const bytes = state['0']?.['momentum_buffer']?.bytes.slice() ?? new Uint8Array();

  return {
    words: await byWords(false),
    horovod: await byHorovod(),
    inSmallMessages: await byHorovod({ fusionThresholdBytes: 16 }),
    inHalf: await byHorovod({ compression: 'fp16' }),
    summed: await byHorovod({ op: 'sum' }, { scale: 0.5 }),
    clipped: await byHorovod({}, { isClipped: true }),
    clippedWords: await byWords(true),
    momenta: Array.from(new Float32Array(bytes.buffer)),
    rates: paramGroups.map(({ lr }) => lr),
    messages: await counted({}),
    messagesOfParts: await counted({ fusionThresholdBytes: 16 }),
  };
}

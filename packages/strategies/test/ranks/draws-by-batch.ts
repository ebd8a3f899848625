import { cpu } from '@shardwise/backend-cpu';
import { createMesh, joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import {
  manualSeed,
  type MeshAxis,
  nn,
  noGrad,
  ones,
  rand,
  randnLike,
  randomState,
  setRandomState,
  setRank,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { checkpoint } from '@shardwise/core/extend';
import {
  applyPlan,
  compose,
  ddp,
  fsdp,
  parallelize,
  pipeline,
  planFor,
  sequenceParallel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';

const numbers = z.array(z.number());

/** What this rank draws in the forward pass of a model. All ranks have the seed 1. */
const drawn = z.object({
  /** Of a dropout, of one in a sequence-parallel layer if there are some, and of a randn. */
  whole: numbers,
  parts: numbers,
  noise: numbers,
  /** The first number that the default generator gives after the pass. */
  after: z.number(),
});

export const found = z.object({
  alone: drawn,
  byStrategy: z.record(z.string(), drawn),
  /** The same pass from the same seed, called in another way. */
  again: z.record(z.string(), numbers),
  /** The results of passes with a checkpoint, and the gradients of their inputs. */
  recomputed: z.array(z.object({ output: numbers, gradient: numbers })),
  /** The loss of a pipeline, which drops elements of its output. */
  loss: z.number(),
});

class Drops extends nn.Module {
  readonly weight = new nn.Parameter(new Float32Array(64).fill(1), [64]);
  readonly whole = new nn.Dropout(0.5);
  readonly parts = new nn.Dropout(0.5);

  /** Shape: x N -> N, N, N. */
  forward(x: Tensor): readonly [whole: Tensor, parts: Tensor, noise: Tensor] {
    const y = x.mul(this.weight);
    return [this.whole.forward(y), this.parts.forward(x), randnLike(x)];
  }
}

/** Its backward pass computes the dropout again. */
class Checkpointed extends nn.Module {
  readonly weight = new nn.Parameter(new Float32Array(64).fill(1), [64]);

  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return checkpoint(() => nn.functional.dropout(x.mul(this.weight), 0.5));
  }
}

class TwoLayers extends nn.Module {
  readonly first = new nn.Linear(4, 4);
  readonly second = new nn.Linear(4, 64);

  /** Shape: x [B, 4] -> [B, 64]. */
  forward(x: Tensor): Tensor {
    return this.second.forward(this.first.forward(x));
  }
}

async function listOf(tensor: Tensor): Promise<number[]> {
  return Array.from(await tensor.data(), Number);
}

async function drawsOf(model: {
  forward(x: Tensor): ReturnType<Drops['forward']>;
}): Promise<z.infer<typeof drawn>> {
  manualSeed(1);
  const [whole, parts, noise] = model.forward(ones([64]));
  return {
    whole: await listOf(whole),
    parts: await listOf(parts),
    noise: await listOf(noise),
    after: await rand([1]).item(),
  };
}

async function otherCalls(): Promise<Record<string, number[]>> {
  const parallel = await parallelize(new Drops(), ddp());
  const { module } = parallel;
  const wholeOf = async (pass: () => ReturnType<Drops['forward']>): Promise<number[]> => {
    manualSeed(1);
    return listOf(pass()[0]);
  };
  const x = ones([64]);
  const state = await (async () => {
    manualSeed(1);
    parallel.forward(x);
    return randomState();
  })();
  const second = parallel.forward(x)[0];
  const saved = await listOf(second);
  setRandomState(JSON.parse(JSON.stringify(state)));
  const resumed = await listOf(parallel.forward(x)[0]);
  const calls = {
    module: await wholeOf(() => module.forward(x)),
    noSync: await wholeOf(() => parallel.noSync(() => parallel.forward(x))),
    noGrad: await wholeOf(() => noGrad(() => parallel.forward(x))),
    outside: await wholeOf(() => [nn.functional.dropout(x), x, x]),
    saved,
    resumed,
  };
  module.eval();
  const evaluated = await wholeOf(() => parallel.forward(x));
  module.train();
  parallel.detach();
  return { ...calls, evaluated, detached: await wholeOf(() => module.forward(x)) };
}

async function recomputed(strategy: Strategy): Promise<{ output: number[]; gradient: number[] }> {
  const parallel = await parallelize(new Checkpointed(), strategy);
  manualSeed(1);
  const x = ones([64]).requiresGrad_();
  const output = parallel.forward(x);
  output.sum().backward();
  if (x.grad === null) throw new TypeError('backward has left no gradient');
  return { output: await listOf(output), gradient: await listOf(x.grad) };
}

async function lossInStages(): Promise<number> {
  const stages = pipeline({
    axis: 'tp',
    microbatches: 2,
    cut: ['second'],
    loss: (output: Tensor) => nn.functional.dropout(output, 0.5).square().sum(),
  });
  const parallel = await parallelize(new TwoLayers(), compose(stages, ddp()));
  manualSeed(1);
  const loss = parallel.forward(ones([2, 4]));
  loss.backward();
  return loss.item();
}

/** Returns what a rank draws, with four ranks on one axis, and as 2 x 2. */
export async function main({
  rank,
  world,
}: RankContext<ThreadsWorld>): Promise<z.infer<typeof found>> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const group = joinThreadsWorld(world, rank);
  const device = await cpu({ memory: world.memory, ...region });
  const arrange = async (axes: readonly MeshAxis[]): Promise<void> => {
    setRank({ device, mesh: await createMesh(group, axes) });
  };
  const byStrategy: Record<string, z.infer<typeof drawn>> = {};
  const draw = async (name: string, strategy: Strategy, sharesDraws?: boolean): Promise<void> => {
    const model = new Drops();
    const plan = planFor(model, strategy);
    const parallel = await applyPlan(
      sharesDraws === undefined ? plan : { ...plan, sharesDraws },
      model,
    );
    byStrategy[name] = await drawsOf(parallel);
  };
  await arrange([{ name: 'dp', size: 4 }]);
  const alone = await drawsOf(new Drops());
  await draw('ddp', ddp());
  await draw('zero', zero({ stage: 2 }));
  await draw('fsdp', fsdp());
  await draw('shared', ddp(), true);
  await draw('tensorParallel', tensorParallel({}, { axis: 'dp' }));
  const again = await otherCalls();
  await arrange([
    { name: 'dp', size: 2 },
    { name: 'tp', size: 2 },
  ]);
  const parts = { parts: sequenceParallel({ dim: 0 }) };
  await draw('tensor and data parallel', compose(tensorParallel(parts), ddp()));
  await draw('hybrid sharding', fsdp({ axis: 'tp', replicas: 'dp' }));
  const checkpoints = [await recomputed(ddp()), await recomputed(fsdp())];
  const loss = await lossInStages();
  await arrange([
    { name: 'dp', size: 1 },
    { name: 'tp', size: 4 },
  ]);
  await draw('an axis of one rank', ddp());
  group.close();
  return { alone, byStrategy, again, recomputed: checkpoints, loss };
}

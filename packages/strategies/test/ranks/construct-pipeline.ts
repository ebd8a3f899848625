import { createHash } from 'node:crypto';
import { cpu } from '@shardwise/backend-cpu';
import { createMesh, joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import {
  manualSeed,
  type MeshAxis,
  nn,
  optim,
  setRank,
  type Tensor,
  tensor,
} from '@shardwise/core';
import { currentSession, randomState } from '@shardwise/core/extend';
import {
  colwiseParallel,
  compose,
  constructSharded,
  ddp,
  fsdp,
  parallelize,
  pipeline,
  planMemory,
  rowwiseParallel,
  type StrategyWithLoss,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';

const trained = z.object({
  /** The SHA-256 of all whole parameters after a step. */
  hash: z.string(),
  loss: z.number(),
  /** The state of the rank's random generators after the model was built. */
  random: z.string(),
});

const run = z.object({
  trained,
  /** The peak bytes of the allocator up to the end of a step. `plannedBytes` has the bytes of states by the plan. */
  peakBytes: z.number(),
  plannedBytes: z.number(),
});

export const constructedPipeline = z.record(
  z.string(),
  z.object({
    whole: run,
    inParts: run,
    /** The bytes kept before a strategy was applied. */
    keptBytes: z.number(),
    /** The error when ranks have drawn different values for their stages. Null if there was none. */
    otherSeeds: z.string().nullable(),
  }),
);

const width = 96;

/** Shape: x [B, width] -> [B, width]. */
class Layers extends nn.Module {
  readonly blocks = new nn.Sequential(
    ...Array.from({ length: 8 }, () => new nn.Linear(width, width)),
  );

  forward(x: Tensor): Tensor {
    return this.blocks.forward(x);
  }
}

const stages = pipeline({
  schedule: '1f1b',
  microbatches: 2,
  loss: (output: Tensor) => output.square().mean(),
});

type Piped = StrategyWithLoss<Tensor, []>;

const strategies: Readonly<Record<string, () => Piped>> = {
  alone: () => stages,
  DDP: () => compose(stages, ddp()),
  'ZeRO-1': () => compose(stages, zero({ stage: 1 })),
  FSDP: () => compose(stages, fsdp()),
  'tensor parallelism': () =>
    compose(
      tensorParallel({
        'blocks.0': colwiseParallel(),
        'blocks.1': rowwiseParallel(),
        'blocks.6': colwiseParallel(),
        'blocks.7': rowwiseParallel(),
      }),
      stages,
    ),
};

export interface ConstructTask {
  readonly axes: readonly MeshAxis[];
  readonly names: readonly string[];
}

export async function main({
  rank,
  world,
  data: { axes, names },
}: RankContext<ThreadsWorld, ConstructTask>): Promise<z.infer<typeof constructedPipeline>> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const mesh = await createMesh(joinThreadsWorld(world, rank), axes);
  const found: z.infer<typeof constructedPipeline> = {};
  for (const name of names) {
    const strategy = strategies[name]?.();
    if (strategy === undefined) throw new RangeError(`no strategy ${name}`);
    setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });
    manualSeed(7);
    const whole = await train(new Layers(), strategy);
    setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });
    manualSeed(7);
    const model = constructSharded(() => new Layers(), strategy);
    const keptBytes = model
      .parameters()
      .reduce((sum, { initialPart }) => sum + (initialPart?.bytes.byteLength ?? Number.NaN), 0);
    const inParts = await train(model, strategy);
    found[name] = { whole, inParts, keptBytes, otherSeeds: await withOtherSeeds(strategy) };
  }
  return found;
}

/** Builds each stage with a different seed. */
async function withOtherSeeds(strategy: Piped): Promise<string | null> {
  manualSeed(currentSession().mesh.coordinate('pp'));
  const model = constructSharded(() => new Layers(), strategy);
  return parallelize<Layers, [x: Tensor], Tensor, []>(model, strategy).then(
    () => null,
    (error: unknown) => String(error),
  );
}

async function train(model: Layers, strategy: Piped): Promise<z.infer<typeof run>> {
  const random = JSON.stringify(randomState());
  const parallel = await parallelize<Layers, [x: Tensor], Tensor, []>(model, strategy);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  const x = tensor(
    Array.from({ length: 4 }, (_, row) =>
      Array.from({ length: width }, (__, at) => Math.sin(row + at)),
    ),
  );
  const loss = parallel.forward(x);
  loss.backward();
  await optimizer.step();
  const value = await loss.item();
  const peakBytes = currentSession().backend.usage?.().peakBytes ?? Number.NaN;
  const planned = planMemory(parallel.plan, { optimizerTensors: 0 });
  const result = { loss: value, hash: await hashOf(model), random };
  return { trained: result, peakBytes, plannedBytes: planned.statesBytes };
}

async function hashOf(model: nn.Module): Promise<string> {
  const hash = createHash('sha256');
  for (const { bytes } of Object.values(await model.stateDict())) hash.update(bytes);
  return hash.digest('hex');
}

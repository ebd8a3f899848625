import { createHash } from 'node:crypto';
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
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';

/** What a rank has trained. */
interface Run {
  readonly trained: {
    /** The SHA-256 of all whole parameters after a step. */
    readonly hash: string;
    readonly loss: number;
    /** The state of the rank's random generators after the model was built. */
    readonly random: string;
  };
  /** The peak bytes of the allocator up to the end of a step. `plannedBytes` has the bytes of states by the plan. */
  readonly peakBytes: number;
  readonly plannedBytes: number;
}

/** What a rank finds, by strategy. */
type Constructed = Record<
  string,
  {
    readonly whole: Run;
    readonly inParts: Run;
    /** The bytes kept before a strategy was applied. */
    readonly keptBytes: number;
    /** The error when ranks have drawn different values for their stages. Null if there was none. */
    readonly otherSeeds: string | null;
  }
>;

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

async function construct(names: readonly string[], { mesh }: RankInThread): Promise<Constructed> {
  const found: Constructed = {};
  for (const name of names) {
    const strategy = strategies[name]?.();
    if (strategy === undefined) throw new RangeError(`no strategy ${name}`);
    setRank({ device: await onCpu.createDevice(), mesh });
    manualSeed(7);
    const whole = await train(new Layers(), strategy);
    setRank({ device: await onCpu.createDevice(), mesh });
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

async function train(model: Layers, strategy: Piped): Promise<Run> {
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

type Ranks = readonly Constructed[];

function ranksOf(axes: readonly MeshAxis[], names: readonly string[]): Promise<Ranks> {
  const size = axes.reduce((product, axis) => product * axis.size, 1);
  return onRanks(size, (rank) => construct(names, rank), { axes });
}

const parameterBytes = 8 * 4 * (96 * 96 + 96);

function expectSame(ranks: Ranks, names: readonly string[]): void {
  for (const name of names) {
    for (const rank of ranks) {
      const { whole, inParts, otherSeeds } = rank[name] ?? expect.fail(name);
      expect(otherSeeds, `${name}, of other seeds`).toMatch(
        /CollectiveMismatchError: .*rank 1 differs from rank 0 at tensor 0.*call manualSeed\(\) with one seed/,
      );
      expect(inParts.trained, name).toEqual(whole.trained);
    }
    const kept = ranks.map((rank) => rank[name]?.keptBytes ?? Number.NaN);
    expect(Math.max(...kept), name).toBeLessThan(parameterBytes);
  }
}

describe('a model whose rank builds the parameters of its stages alone', () => {
  it('a model whose rank builds the parameters of its stages alone has the values, losses and random numbers of one that was built whole, in half of the memory', async () => {
    const ranks = await ranksOf([{ name: 'pp', size: 2 }], ['alone']);
    expectSame(ranks, ['alone']);
    for (const { alone } of ranks) {
      const { keptBytes, inParts } = alone ?? expect.fail();
      expect(keptBytes).toBe(parameterBytes / 2);
      const { peakBytes, plannedBytes } = inParts;
      expect(plannedBytes).toBe(parameterBytes);
      // While gradients are accumulated, memory holds the sum, the new gradient and the new sum, and a few rows of
      // activations.
      expect(peakBytes).toBeLessThan(1.1 * 2 * plannedBytes);
    }
  });

  it('a model whose rank builds the parameters of its stages alone is sharded further by what divides the batch', async () => {
    const axes = [
      { name: 'pp', size: 2 },
      { name: 'dp', size: 2 },
    ];
    const names = ['DDP', 'ZeRO-1', 'FSDP'];
    const ranks = await ranksOf(axes, names);
    expectSame(ranks, names);
    for (const { FSDP, DDP } of ranks) {
      expect(DDP?.keptBytes).toBe(parameterBytes / 2);
      expect(FSDP?.keptBytes).toBe(parameterBytes / 4);
    }
  });

  it('a model whose rank builds the parameters of its stages alone is sharded before by tensor parallelism', async () => {
    const axes = [
      { name: 'tp', size: 2 },
      { name: 'pp', size: 2 },
    ];
    const names = ['tensor parallelism'];
    expectSame(await ranksOf(axes, names), names);
  });
});

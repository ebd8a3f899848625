import {
  manualSeed,
  type MeshAxis,
  nn,
  optim,
  setRank,
  type Strategy,
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
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { hashOf } from '../../../test/support/model-values.ts';
import { onCpu } from '../../../test/support/on-cpu.ts';

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

async function train(model: Layers, strategy: Piped) {
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
  return {
    /** The random numbers are the state of the rank's generators after the model was built. */
    trained: { loss: value, hash: await hashOf(model), random },
    /** The peak bytes of the allocator up to the end of a step, and the bytes of states by the plan. */
    peakBytes,
    plannedBytes: planned.statesBytes,
  };
}

const parameterBytes = 8 * 4 * (96 * 96 + 96);

/** What a model that a rank builds in parts keeps before a strategy is applied, and what it has trained. */
interface Constructed extends Omit<Awaited<ReturnType<typeof train>>, 'trained'> {
  readonly keptBytes: number;
}

/**
 * Constructs a model in parts on each rank of a mesh. Expects that it trains as one that was built whole, that no rank
 * keeps the whole, and that ranks that draw other values for their stages are refused.
 */
function expectSame(axes: readonly MeshAxis[], strategy: Piped): Promise<readonly Constructed[]> {
  const size = axes.reduce((product, axis) => product * axis.size, 1);
  return onRanks(
    size,
    async ({ mesh }) => {
      setRank({ device: await onCpu.createDevice(), mesh });
      manualSeed(7);
      const whole = await train(new Layers(), strategy);
      setRank({ device: await onCpu.createDevice(), mesh });
      manualSeed(7);
      const model = constructSharded(() => new Layers(), strategy);
      const keptBytes = model
        .parameters()
        .reduce((sum, { initialPart }) => sum + (initialPart?.bytes.byteLength ?? Number.NaN), 0);
      expect(keptBytes).toBeLessThan(parameterBytes);
      const { trained, ...bytes } = await train(model, strategy);
      expect(trained).toEqual(whole.trained);
      // Each stage is built with a different seed.
      manualSeed(mesh.coordinate('pp'));
      const other = constructSharded(() => new Layers(), strategy);
      const refused = parallelize<Layers, [x: Tensor], Tensor, []>(other, strategy);
      expect(await refused.then(() => 'no error', String)).toMatch(
        /CollectiveMismatchError: .*rank 1 differs from rank 0 at tensor 0.*call manualSeed\(\) with one seed/,
      );
      return { ...bytes, keptBytes };
    },
    { axes },
  );
}

describe('a model whose rank builds the parameters of its stages alone', () => {
  it('has the values, losses and random numbers of one that was built whole, in half of the memory', async () => {
    const ranks = await expectSame([{ name: 'pp', size: 2 }], stages);
    for (const { keptBytes, peakBytes, plannedBytes } of ranks) {
      expect(keptBytes).toBe(parameterBytes / 2);
      expect(plannedBytes).toBe(parameterBytes);
      // While gradients are accumulated, memory holds the sum, the new gradient and the new sum, and a few rows of
      // activations.
      expect(peakBytes).toBeLessThan(1.1 * 2 * plannedBytes);
    }
  });

  it.each<[string, Strategy, ranksOfParameter: number]>([
    ['DDP', ddp(), 1],
    ['ZeRO-1', zero({ stage: 1 }), 1],
    ['FSDP', fsdp(), 2],
  ])('is sharded further by what divides the batch: %s', async (_, batch, ranksOfParameter) => {
    const axes = ['pp', 'dp'].map((name) => ({ name, size: 2 }));
    for (const { keptBytes } of await expectSame(axes, compose(stages, batch))) {
      expect(keptBytes).toBe(parameterBytes / 2 / ranksOfParameter);
    }
  });

  it('is sharded before by tensor parallelism', async () => {
    const axes = ['tp', 'pp'].map((name) => ({ name, size: 2 }));
    const styles = {
      'blocks.0': colwiseParallel(),
      'blocks.1': rowwiseParallel(),
      'blocks.6': colwiseParallel(),
      'blocks.7': rowwiseParallel(),
    };
    expect(await expectSame(axes, compose(tensorParallel(styles), stages))).toHaveLength(4);
  });
});

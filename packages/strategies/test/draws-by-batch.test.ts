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
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';

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

/** What a rank draws in the forward pass of a model. All ranks have the seed 1. */
async function drawsOf(model: { forward(x: Tensor): ReturnType<Drops['forward']> }) {
  manualSeed(1);
  const [whole, parts, noise] = model.forward(ones([64]));
  return {
    whole: await valuesOf(whole),
    /** Of a dropout in a sequence-parallel layer, if there are some. */
    parts: await valuesOf(parts),
    noise: await valuesOf(noise),
    /** The first number that the default generator gives after the pass. */
    after: await rand([1]).item(),
  };
}
type Drawn = Awaited<ReturnType<typeof drawsOf>>;

const line: readonly MeshAxis[] = [{ name: 'dp', size: 4 }];
const gridOf = (dp: number): readonly MeshAxis[] => [
  { name: 'dp', size: dp },
  { name: 'tp', size: 4 / dp },
];

function drawsWith(
  strategy: Strategy,
  axes: readonly MeshAxis[],
  sharing: { readonly sharesDraws?: boolean } = {},
): Promise<readonly Drawn[]> {
  const draw = async (): Promise<Drawn> => {
    const model = new Drops();
    return drawsOf(await applyPlan({ ...planFor(model, strategy), ...sharing }, model));
  };
  return onRanks(4, draw, { axes });
}

/** Returns how many of the lists differ from each other. */
function kinds(lists: readonly unknown[]): number {
  return new Set(lists.map((list) => JSON.stringify(list))).size;
}

describe('four ranks with the same seed', () => {
  const hybrid = fsdp({ axis: 'tp', replicas: 'dp' });

  it.each([
    ['ddp', ddp(), line],
    ['zero', zero({ stage: 2 }), line],
    ['fsdp', fsdp(), line],
    ['hybrid sharding', hybrid, gridOf(2)],
  ])(
    'drop other elements of each part of the batch, and draw other noise, with %s',
    async (_, strategy, axes) => {
      const draws = await drawsWith(strategy, axes);
      expect(kinds(draws.map(({ whole }) => whole))).toBe(4);
      expect(kinds(draws.map(({ parts }) => parts))).toBe(4);
      expect(kinds(draws.map(({ noise }) => noise))).toBe(4);
      // The default generator is in the same state after a pass, for initial values.
      expect(kinds(draws.map(({ after }) => after))).toBe(1);
      for (const { whole, noise } of draws) {
        const kept = whole.filter((value) => value === 2).length;
        expect(whole.filter((value) => value === 0)).toHaveLength(64 - kept);
        expect(kept).toBeGreaterThan(16);
        expect(kept).toBeLessThan(48);
        expect(new Set(noise).size).toBe(64);
      }
    },
  );

  it('draw the same numbers for a part of the batch, however ranks are arranged in axes', async () => {
    const draws = await drawsWith(hybrid, gridOf(2));
    expect(draws.map(({ whole }) => whole)).toEqual(
      (await drawsWith(fsdp(), line)).map(({ whole }) => whole),
    );
  });

  it('draw the same for what ranks of tensor parallelism share, and not for other rows or parts', async () => {
    const parts = { parts: sequenceParallel({ dim: 0 }) };
    const draws = await drawsWith(compose(tensorParallel(parts), ddp()), gridOf(2));
    const [a, b, c, d] = draws;
    expect(a?.whole).toEqual(b?.whole);
    expect(c?.whole).toEqual(d?.whole);
    expect(a?.noise).toEqual(b?.noise);
    expect(c?.noise).toEqual(d?.noise);
    expect(a?.whole).not.toEqual(c?.whole);
    expect(a?.noise).not.toEqual(c?.noise);
    expect(kinds(draws.map((own) => own.parts))).toBe(4);
  });

  it.each([
    ['a plan that shares draws', ddp(), line, { sharesDraws: true }],
    ['tensor parallelism', tensorParallel({}, { axis: 'dp' }), line, {}],
    ['an axis of one rank', ddp(), gridOf(1), {}],
  ])(
    'draw what one rank draws if they share draws, or have one batch: %s',
    async (_, strategy, axes, sharing) => {
      const alone = await onRanks(1, () => drawsOf(new Drops()));
      for (const own of await drawsWith(strategy, axes, sharing)) expect(own).toEqual(alone[0]);
    },
  );

  it('draw the same in calls of the module, in noSync and without gradients, and what one rank draws outside and after detach()', async () => {
    await onRanks(4, async () => {
      const x = ones([64]);
      const parallel = await parallelize(new Drops(), ddp());
      const { module } = parallel;
      const wholeOf = async (pass: () => ReturnType<Drops['forward']>): Promise<number[]> => {
        manualSeed(1);
        return valuesOf(pass()[0]);
      };
      const alone = await wholeOf(() => new Drops().forward(x));
      const own = await wholeOf(() => parallel.forward(x));
      expect(own).not.toEqual(alone);
      expect(await wholeOf(() => module.forward(x))).toEqual(own);
      expect(await wholeOf(() => parallel.noSync(() => parallel.forward(x)))).toEqual(own);
      expect(await wholeOf(() => noGrad(() => parallel.forward(x)))).toEqual(own);
      expect(await wholeOf(() => [nn.functional.dropout(x), x, x])).toEqual(alone);
      module.eval();
      expect(new Set(await wholeOf(() => parallel.forward(x)))).toEqual(new Set([1]));
      module.train();
      parallel.detach();
      expect(await wholeOf(() => module.forward(x))).toEqual(alone);
    });
  });

  it('draw the same from a saved state', async () => {
    await onRanks(4, async () => {
      const parallel = await parallelize(new Drops(), ddp());
      const next = (): Promise<number[]> => valuesOf(parallel.forward(ones([64]))[0]);
      const first = await next();
      const state = JSON.stringify(randomState());
      const saved = await next();
      expect(saved).not.toEqual(first);
      setRandomState(JSON.parse(state));
      expect(await next()).toEqual(saved);
    });
  });

  it.each([
    ['ddp', ddp()],
    ['fsdp', fsdp()],
  ])(
    'draw the same again where the backward pass computes a part of the forward pass again: %s',
    async (_, strategy) => {
      const ranks = await onRanks(
        4,
        async () => {
          const parallel = await parallelize(new Checkpointed(), strategy);
          manualSeed(1);
          const x = ones([64]).requiresGrad_();
          const output = parallel.forward(x);
          output.sum().backward();
          const found = await valuesOf(output);
          expect(x.grad && (await valuesOf(x.grad))).toEqual(found);
          return found;
        },
        { axes: gridOf(2) },
      );
      expect(kinds(ranks)).toBe(2);
    },
  );

  it('draw different numbers in the loss of a pipeline for each of its batches', async () => {
    const stages = pipeline({
      axis: 'tp',
      microbatches: 2,
      cut: ['second'],
      loss: (output: Tensor) => nn.functional.dropout(output, 0.5).square().sum(),
    });
    const losses = await onRanks(
      4,
      async () => {
        const parallel = await parallelize(new TwoLayers(), compose(stages, ddp()));
        manualSeed(1);
        const loss = parallel.forward(ones([2, 4]));
        loss.backward();
        return loss.item();
      },
      { axes: gridOf(2) },
    );
    const [a, b, c, d] = losses;
    expect(a).toBe(b);
    expect(c).toBe(d);
    expect(a).not.toBe(c);
  });
});

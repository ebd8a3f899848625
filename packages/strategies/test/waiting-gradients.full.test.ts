import { nn, optim, type Strategy, type Tensor, tensor } from '@shardwise/core';
import { fsdp, parallelize, type PlannedModel, zero } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';
import { failureOf } from './failure-of.ts';

const f16 = { parameterDtype: 'f16', reduceDtype: 'f32' } as const;

const strategies: Readonly<Record<string, () => Strategy>> = {
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  'ZeRO-1 in f16': () => zero({ stage: 1, mixedPrecision: f16 }),
  'FSDP in f16': () => fsdp({ mixedPrecision: f16 }),
};

type Branch = 'left' | 'right';

/** A model with two branches of the same shapes. */
class Branches extends nn.Module {
  readonly left = constant(0.3);
  readonly right = constant(0.6);

  /** Shape: x [B, 2] -> [B, 2]. */
  forward(x: Tensor, branch: Branch): Tensor {
    return this[branch].forward(x);
  }
}

function constant(value: number): nn.Linear {
  const layer = new nn.Linear(2, 2, { bias: false });
  layer.weight.assign(
    tensor([
      [value, -value],
      [value, value],
    ]),
  );
  return layer;
}

type Model = PlannedModel<Branches, [x: Tensor, branch: Branch], Tensor>;

/** Sums the outputs for one row of a branch, and computes the gradients. */
function pass(model: Model, row: readonly [number, number], branch: Branch = 'left'): void {
  model
    .forward(tensor([row]), branch)
    .sum()
    .backward();
}

describe.each(Object.entries(strategies))(
  'gradients that wait for their reduction: %s',
  (_, strategy) => {
    /** Runs `body` with the model as each of two ranks. */
    const onModel = <T>(body: (model: Model, rank: number) => Promise<T>): Promise<readonly T[]> =>
      onRanks(2, async ({ rank }) => body(await parallelize(new Branches(), strategy()), rank));

    it('are not left out of a step: it is refused while no pass outside of noSync has averaged them', () =>
      onModel(async (model, rank) => {
        const optimizer = new optim.SGD(model.module.parameters(), { lr: 0.1 });
        model.noSync(() => pass(model, [1, rank]));
        const failure = await failureOf(optimizer.step());
        expect(failure?.code).toBe('TENSOR_STATE');
        expect(failure?.message).toMatch(
          /1 of 2 parameters have gradients of this rank alone.*: left\.weight\. Call the last backward\(\) of a step outside of noSync/,
        );
        pass(model, [1, rank]);
        expect(await failureOf(optimizer.step())).toBeNull();
      }));

    it('can have no other gradient put in their place, as by clipping', () =>
      onModel(async (model, rank) => {
        pass(model, [1, rank]);
        model.noSync(() => pass(model, [1, rank]));
        expect(() => optim.clipGradNorm(model.module.parameters(), 0.1)).toThrow(
          /wait to be added to it\. Clip and unscale gradients after the last backward\(\)/,
        );
      }));

    it('add to gradients that were clipped before', async () => {
      // The gradients of the first pass are [1, 2] in each row. Their norm is the root of 10, so clipping halves them.
      const weightAfter = (clips: boolean): Promise<readonly number[][]> =>
        onModel(async (model) => {
          const { weight } = model.module.left;
          const factor = clips ? 1 : 0.5;
          pass(model, [factor, 2 * factor]);
          if (clips) optim.clipGradNorm([weight], Math.sqrt(10) / 2);
          model.noSync(() => pass(model, [2, 4]));
          pass(model, [4, 8]);
          await new optim.SGD([weight], { lr: 1 }).step();
          return valuesOf(weight);
        });
      const [expected = []] = await weightAfter(false);
      for (const found of await weightAfter(true)) {
        expect(found).toHaveLength(4);
        found.forEach((value, index) => expect(value).toBeCloseTo(expected[index] ?? NaN, 2));
      }
    });

    it('are averaged with the next pass outside of noSync, also of parameters that it does not use', async () => {
      const lossesOf = (waits: boolean): Promise<readonly number[][]> =>
        onModel(async (model, rank) => {
          const optimizer = new optim.SGD(model.module.parameters(), { lr: 0.1 });
          const losses: number[] = [];
          for (let step = 0; step < 3; step++) {
            optimizer.zeroGrad();
            const lossOf = (branch: Branch): Tensor => {
              const loss = model
                .forward(tensor([[1, rank + step]]), branch)
                .square()
                .sum();
              loss.backward();
              return loss;
            };
            const first = waits ? model.noSync(() => lossOf('left')) : lossOf('left');
            const sum = first.add(lossOf('right'));
            await optimizer.step();
            losses.push(await sum.item());
          }
          expect(losses).toHaveLength(3);
          return losses;
        });
      expect(await lossesOf(true)).toEqual(await lossesOf(false));
    });
  },
);

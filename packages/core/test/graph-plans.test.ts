import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { dropout } from '../src/nn/functional/dropout.ts';
import { mseLoss } from '../src/nn/functional/losses.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { Sequential } from '../src/nn/containers/sequential.ts';
import { AdamW } from '../src/optim/adam.ts';
import { clipGradNorm } from '../src/optim/clip-grad-norm.ts';
import { SGD } from '../src/optim/sgd.ts';
import { manualSeed } from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import { fromData, tensor } from '../src/tensor/create.ts';
import { statistics } from '../src/timeline.ts';

beforeEach(() => {
  setRank({ device: interpreter() });
  manualSeed(0);
});

async function plansOf(body: () => Promise<unknown>): Promise<number> {
  const before = statistics().plansMade;
  await body();
  return statistics().plansMade - before;
}

describe('steps of one structure make one plan', () => {
  test('with AdamW, although step, learning rate, clipping limit, data and dropout key differ', async () => {
    const model = new Sequential(new Linear(3, 4), new Linear(4, 2));
    const optimizer = new AdamW(model.parameters());
    const plans = await plansOf(async () => {
      for (let step = 0; step < 5; step++) {
        for (const group of optimizer.paramGroups) group.lr = 1 / (step + 1);
        const x = fromData(
          Float32Array.from({ length: 6 }, (_, i) => i * step),
          [2, 3],
          'f32',
        );
        const loss = mseLoss(
          dropout(model.forward(x), 0.3),
          tensor([
            [step, 1],
            [2, 3],
          ]),
        );
        optimizer.zeroGrad();
        loss.backward();
        clipGradNorm(model.parameters(), 1 + step);
        await optimizer.step();
      }
    });
    expect(plans).toBe(1);
  });

  test('with SGD and momentum, whose first step differs in numbers only', async () => {
    const model = new Linear(3, 2);
    const optimizer = new SGD(model.parameters(), { lr: 0.1, momentum: 0.9, dampening: 0.5 });
    const plans = await plansOf(async () => {
      for (let step = 0; step < 4; step++) {
        optimizer.zeroGrad();
        mseLoss(model.forward(tensor([[1, 2, step]])), tensor([[0, 0]])).backward();
        await optimizer.step();
      }
    });
    expect(plans).toBe(1);
  });

  test('and leaves keep their place in it when a step makes them anew', async () => {
    const old = tensor([1]);
    const plans = await plansOf(async () => {
      await old.add(tensor([2]).mul(3)).data();
      await tensor([1]).add(old.mul(3)).data();
    });
    expect(plans).toBe(1);
  });
});

describe('plans are told apart by', () => {
  test.each([
    ['an op', () => tensor([1, 2]).mul(tensor([3, 4]))],
    ['a constant', () => tensor([1, 2]).add(7)],
    ['a shape', () => tensor([1, 2, 3]).add(tensor([3, 4, 5]))],
    ['a dtype', () => tensor([1, 2], 'i32').add(tensor([3, 4], 'i32'))],
    [
      'which leaf stands where',
      () => {
        const x = tensor([1, 2]);
        return x.add(x);
      },
    ],
  ])('%s', async (_, other) => {
    await tensor([1, 2])
      .add(tensor([3, 4]))
      .data();
    expect(
      await plansOf(() =>
        tensor([5, 6])
          .add(tensor([7, 8]))
          .data(),
      ),
    ).toBe(0);
    expect(await plansOf(() => other().data())).toBe(1);
  });
});

test('a value that is read twice is computed once', async () => {
  const y = tensor([1, 2]).exp();
  await y.realize();
  const before = statistics().plansRun;
  await y.data();
  await y.data();
  expect(statistics().plansRun).toBe(before);
});

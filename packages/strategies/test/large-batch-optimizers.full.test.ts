import {
  fromData,
  manualSeed,
  nn,
  optim,
  statistics,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  ddp,
  fsdp,
  parallelize,
  rowwiseParallel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { assertAllclose } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { hashOf } from '../../../test/support/model-values.ts';
import { meanOverRanks, oncePerKey } from './as-one-rank.ts';

const wholeStrategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
};

/** Optimizers whose updates depend on whole parameters. */
const wholeOptimizers = {
  Lamb: (model: nn.Module) => new optim.Lamb(model.parameters(), { lr: 0.02 }),
  Adafactor: (model: nn.Module) => new optim.Adafactor(model.parameters(), { lr: 0.05 }),
  Muon: (model: nn.Module) =>
    new optim.Muon(
      model.parameters().filter(({ shape }) => shape.length === 2),
      { lr: 0.02 },
    ),
} satisfies Record<string, (model: nn.Module) => optim.Optimizer>;
const wholeSteps = 5;
const freezeStep = 20;
const oneBitSteps = 120;
const items = 24;

function build(): nn.Sequential {
  manualSeed(3);
  return new nn.Sequential(new nn.Linear(16, 64), new nn.Tanh(), new nn.Linear(64, 16));
}

/** Returns the loss on this rank's share of a batch. 1 to 4 ranks share the batch evenly. */
function lossOn(
  forward: (x: Tensor) => Tensor,
  { rank, size }: { readonly rank: number; readonly size: number },
  step: number,
): Tensor {
  const share = items / size;
  const x = Float32Array.from({ length: share * 16 }, (_, i) =>
    Math.sin((i + 1 + rank * share * 16) * (1 + (step % 4) / 7)),
  );
  const y = x.map((value, i) => (value * ((i + rank * share * 16) % 3)) / 2);
  const [inputs, targets] = [x, y].map((data) => fromData(data, [share, 16], 'f32'));
  if (inputs === undefined || targets === undefined) throw new RangeError('a batch');
  return nn.functional.mseLoss(forward(inputs), targets);
}

/** Trains with a loss of each step, and returns the losses. */
async function train(
  model: nn.Module,
  optimizer: optim.Optimizer,
  steps: number,
  pass: (step: number) => Tensor,
): Promise<number[]> {
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    model.zeroGrad();
    const loss = pass(step);
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}

function backward(loss: Tensor): Tensor {
  loss.backward();
  return loss;
}

type MakeOptimizer = (model: nn.Module) => optim.Optimizer;

/** Trains on one rank with whole batches. */
function trainAlone(makeOptimizer: MakeOptimizer, steps: number): Promise<number[]> {
  const model = build();
  const place = { rank: 0, size: 1 };
  const pass = (step: number): Tensor => backward(lossOn((x) => model.forward(x), place, step));
  return train(model, makeOptimizer(model), steps, pass);
}

const alone = oncePerKey((makeOptimizer: MakeOptimizer) => trainAlone(makeOptimizer, wholeSteps));

const styles = { '0': colwiseParallel(), '2': rowwiseParallel() };

describe.each([
  { size: 3, tp: 1 },
  { size: 4, tp: 2 },
])('on $size ranks, of which $tp compute layers together', ({ size, tp }) => {
  const axes = [
    { name: 'dp', size: size / tp },
    { name: 'tp', size: tp },
  ].slice(0, tp);

  describe.each(Object.entries(wholeOptimizers))('%s', (_, makeOptimizer) => {
    it.each(Object.entries(wholeStrategies))(
      'updates whole parameters under %s',
      async (__, strategy) => {
        const ranks = await onRanks(
          size,
          async ({ mesh }) => {
            const model = build();
            const own = tp === 1 ? strategy() : compose(tensorParallel(styles), strategy());
            const parallel = await parallelize(model, own);
            const place = { rank: mesh.coordinate('dp'), size: size / tp };
            const losses = await train(model, makeOptimizer(model), wholeSteps, (step) =>
              backward(lossOn((x) => parallel.forward(x), place, step)),
            );
            return { losses, hash: await hashOf(model) };
          },
          { axes },
        );
        const found = meanOverRanks(ranks.map(({ losses }) => losses));
        assertAllclose(found, await alone(makeOptimizer), { rtol: 1e-4 });
        expect(new Set(ranks.map(({ hash }) => hash)).size).toBe(1);
      },
    );
  });
});

it('OneBitAdam is Adam before its freeze step, goes on learning after it, with the same bits on every rank, and then sends about a 32nd of the bytes', async () => {
  const [adam = []] = await onRanks(1, () =>
    trainAlone(
      (model) => new optim.AdamW(model.parameters(), { lr: 3e-3, weightDecay: 0 }),
      oneBitSteps,
    ),
  );
  const ranks = await onRanks(3, async (place) => {
    const model = build();
    const parallel = await parallelize(model, ddp());
    const optimizer = new optim.OneBitAdam(model.parameters(), { lr: 3e-3, freezeStep });
    const sent: number[] = [];
    const losses = await train(model, optimizer, oneBitSteps, (step) => {
      sent.push(statistics().collectiveBytes);
      return parallel.noSync(() => backward(lossOn((x) => parallel.forward(x), place, step)));
    });
    const bytesOf = (step: number): number => (sent[step + 1] ?? NaN) - (sent[step] ?? NaN);
    const [warm, cold] = [bytesOf(freezeStep - 2), bytesOf(oneBitSteps - 2)];
    // An all-reduce of n bytes sends n bytes to compute the means, and n bytes to return them.
    expect((cold / (2 * warm)) * 32).toBeGreaterThan(0.9);
    expect((cold / (2 * warm)) * 32).toBeLessThan(1.4);
    return { losses, hash: await hashOf(model) };
  });
  const found = meanOverRanks(ranks.map(({ losses }) => losses));
  assertAllclose(found.slice(0, freezeStep), adam.slice(0, freezeStep), { rtol: 1e-4 });
  // Batches repeat every four steps, so the worst of four losses is compared.
  const worst = (losses: readonly number[]): number => Math.max(...losses);
  const atEnd = worst(found.slice(-4));
  expect(atEnd).toBeLessThan(0.9 * worst(found.slice(freezeStep - 4, freezeStep)));
  expect(atEnd).toBeLessThan(1.02 * worst(adam.slice(-4)));
  expect(new Set(ranks.map(({ hash }) => hash)).size).toBe(1);
});

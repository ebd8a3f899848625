import {
  CollectiveMismatchError,
  fromData,
  hostPages,
  manualSeed,
  nn,
  optim,
  type Strategy,
  tensor,
} from '@shardwise/core';
import type { ModelDivision, ModelSpec, Tensor } from '@shardwise/core/extend';
import { auto, type AutoChoice } from '@shardwise/planner';
import { ddp, explain, fsdp, parallelize, pipeline, planMemory, zero } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';

const axes = [{ name: 'dp', size: 4 }];
const model: ModelSpec = {
  parameters: ['0', '1', '2', '3'].map((layer) => ({
    name: `layers.${layer}.weight`,
    shape: [64, 64],
    dtype: 'f32',
    requiresGrad: true,
  })),
  modules: ['', 'layers', 'layers.0', 'layers.1', 'layers.2', 'layers.3'],
};
// 16,384 elements. ddp keeps 16 bytes of each.
const whole = 16 * 4 * 64 * 64;

function choiceFor(memoryBytes: number): {
  readonly text: string;
  readonly choice: AutoChoice | undefined;
} {
  let choice: AutoChoice | undefined;
  const strategy = auto({ memoryBytes, onChoice: (made) => (choice = made) });
  return { text: explain(strategy.plan(model, axes)), choice };
}

test('auto() is ddp while everything fits, and exactly its plan', () => {
  const { text, choice } = choiceFor(whole);
  expect(text).toBe(explain(ddp().plan(model, axes)));
  expect(choice?.chosen).toMatchObject({ name: 'ddp', bytes: whole });
  expect(choice?.candidates.map(({ name }) => name)).toEqual(['ddp', 'zero 1', 'zero 2', 'fsdp']);
});

test('auto() divides as much as the memory asks for, and no more', () => {
  const keeps = (stage: 1 | 2): number => {
    return planMemory(zero({ stage }).plan(model, axes)).statesBytes;
  };
  expect(choiceFor(whole - 1).text).toBe(explain(zero({ stage: 1 }).plan(model, axes)));
  expect(choiceFor(keeps(1) - 1).text).toBe(explain(zero({ stage: 2 }).plan(model, axes)));
  expect(keeps(2)).toBeLessThan(keeps(1));
});

test('auto() is fsdp if nothing else fits, and counts the units that are gathered', () => {
  // A layer is small beside what the ranks divide.
  const large: ModelSpec = {
    ...model,
    parameters: Array.from({ length: 32 }, (_, layer) => ({
      name: `layers.${layer}.weight`,
      shape: [64, 64],
      dtype: 'f32' as const,
      requiresGrad: true,
    })),
    modules: ['', 'layers', ...Array.from({ length: 32 }, (_, layer) => `layers.${layer}`)],
  };
  const elements = 32 * 64 * 64;
  const needed = 4 * elements + 2 * 4 * 64 * 64;
  const plan = auto({ memoryBytes: needed }).plan(large, axes);
  expect(explain(plan)).toBe(explain(fsdp().plan(large, axes)));
  expect(() => auto({ memoryBytes: needed - 1 }).plan(large, axes)).toThrow(
    `no strategy that fits: fsdp needs least, ${needed} bytes`,
  );
});

test('auto() counts activations, which no strategy on dp divides', () => {
  let chosen = '';
  const strategy = auto({
    memoryBytes: whole,
    activationBytes: 1000,
    onChoice: (choice) => (chosen = choice.chosen.name),
  });
  strategy.plan(model, axes);
  expect(chosen).toBe('zero 1');
});

test('auto() keeps least, and recomputes, if only the activations leave no room', () => {
  let choice: AutoChoice | undefined;
  const [states, activationBytes] = [planMemory(fsdp().plan(model, axes)), 1e6];
  const memoryBytes = 5e5;
  const onChoice = (made: AutoChoice): void => void (choice = made);
  const plan = auto({ memoryBytes, activationBytes, onChoice }).plan(model, axes);
  const passBytes = memoryBytes - states.parameterBytes - states.optimizerBytes;
  expect(choice).toMatchObject({ chosen: { name: 'fsdp' }, passBytes });
  expect(plan.steps.at(-1)).toMatchObject({ kind: 'recompute', data: { bytes: passBytes } });
  expect(explain(plan)).toContain('backward recomputes what a pass of');
  const pages = hostPages();
  const paged = auto({ memoryBytes, activationBytes, pages }).plan(model, axes);
  expect(paged.steps.at(-1)).toMatchObject({
    kind: 'recompute',
    data: { bytes: passBytes, pages },
  });
  expect(explain(paged)).toContain('backward recomputes or reads from pages what a pass of');
  expect(() => auto({ memoryBytes: 1e4, activationBytes }).plan(model, axes)).toThrow(
    'no strategy that fits',
  );
});

test('auto() says which axes it cannot use', () => {
  expect(() => auto({ memoryBytes: 1e9 }).plan(model, [{ name: 'cp', size: 2 }])).toThrow(
    "the axis 'cp', for which it has no strategy",
  );
  expect(() => auto({ memoryBytes: 1e9 }).plan(model, [{ name: 'pp', size: 2 }])).toThrow(
    'a model that does not say with which modules stages can begin',
  );
  expect(() => auto({ memoryBytes: 1e9 }).plan(model, [{ name: 'tp', size: 2 }])).toThrow(
    'a model that does not say how its layers are divided',
  );
});

describe('on an axis of stages', () => {
  const staged: ModelSpec = { ...model, division: { stages: ['layers.*'] } };
  const stages = [{ name: 'pp', size: 2 }];

  test('auto() is the pipeline that waits least, and counts the microbatches that are under way', () => {
    let choice: AutoChoice | undefined;
    const onChoice = (made: AutoChoice): void => void (choice = made);
    const activationBytes = 8e5;
    const options = { activationBytes, microbatches: 8, onChoice };
    const plan = auto({ ...options, memoryBytes: 1e7 }).plan(staged, stages);
    const chosen = pipeline({ schedule: 'zb1p', microbatches: 8 }).plan(staged, stages);
    expect(explain(plan)).toBe(explain(chosen));
    const [plain] = choice?.candidates ?? [];
    // The first rank has both ranks' worth of microbatches, each with half of the layers.
    expect(plain?.bytes).toBe(whole / 2 + (2 * activationBytes) / 8 / 2);
    expect(plain?.bubble).toBeCloseTo(1);
    expect(choice?.chosen.bubble).toBeLessThan(1);
    expect(() => auto({ ...options, memoryBytes: 1e5 }).plan(staged, stages)).toThrow(
      'no strategy that fits',
    );
    // Seven microbatches fill no rounds of zb1p.
    auto({ ...options, microbatches: 7, memoryBytes: 1e7 }).plan(staged, stages);
    expect(choice?.candidates.map(({ name }) => name)).toEqual(['pipeline 1f1b']);
  });

  test('auto() divides states over dp beside it, as far as pipelines do', () => {
    const plan = auto({ memoryBytes: 1e7, microbatches: 8 }).plan(staged, [
      ...stages,
      { name: 'dp', size: 2 },
    ]);
    expect(plan.strategy).toContain('ddp');
    const small = auto({ memoryBytes: 0.45 * whole, microbatches: 8 }).plan(staged, [
      ...stages,
      { name: 'dp', size: 2 },
    ]);
    expect(small.strategy).toContain('zero-1');
  });

  test('a model trains on two ranks as on one', async () => {
    class Stack extends nn.Module {
      readonly layers = new nn.ModuleList([new nn.Linear(4, 4), new nn.Linear(4, 4)]);

      forward(x: Tensor): Tensor {
        let y = x;
        for (const layer of this.layers) y = layer.forward(y).tanh();
        return y.square().mean();
      }

      override division(): ModelDivision {
        return { stages: ['layers.*'] };
      }
    }
    const rows = (): Tensor =>
      fromData(
        Float32Array.from({ length: 32 }, (_, i) => Math.sin(i)),
        [8, 4],
        'f32',
      );
    const losses = async (strategy: Strategy | null): Promise<readonly number[]> => {
      manualSeed(3);
      const stack = new Stack();
      const parallel = strategy === null ? stack : await parallelize(stack, strategy);
      const optimizer = new optim.SGD(stack.parameters(), { lr: 0.1 });
      const found: number[] = [];
      for (let step = 0; step < 2; step++) {
        optimizer.zeroGrad();
        const loss = parallel.forward(rows());
        loss.backward();
        await optimizer.step();
        found.push(await loss.item());
      }
      return found;
    };
    const [alone = []] = await onRanks(1, () => losses(null));
    const axes = { axes: [{ name: 'pp', size: 2 }] };
    const strategy = (): Strategy => auto({ memoryBytes: 1e9, microbatches: 4 });
    for (const found of await onRanks(2, () => losses(strategy()), axes)) {
      for (const [step, loss] of found.entries()) expect(loss).toBeCloseTo(alone[step] ?? 0, 6);
    }
  });
});

/** Trains for a step, and returns the strategy and the weights after it. */
async function train(
  strategy: Strategy,
  rank: number,
): Promise<{ readonly strategy: string; readonly weights: readonly number[] }> {
  manualSeed(3);
  const model = new nn.Linear(4, 4);
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.AdamW(model.parameters(), { lr: 0.1 });
  parallel
    .forward(tensor([[rank + 1, 2, 3, 4]]))
    .square()
    .mean()
    .backward();
  await optimizer.step();
  const weights = Array.from(await model.weight.data(), Number);
  return { strategy: parallel.plan.strategy, weights };
}

describe('on two ranks', () => {
  test('a model trains exactly as by the strategy that auto() chose', async () => {
    await onRanks(2, async ({ rank }) => {
      // 20 elements, of which ddp keeps 16 bytes each, and zero 1 on two ranks 12.
      const large = await train(auto({ memoryBytes: 320 }), rank);
      expect(large).toEqual(await train(ddp(), rank));
      const small = await train(auto({ memoryBytes: 319 }), rank);
      expect(small).toEqual(await train(zero({ stage: 1 }), rank));
      expect(small.strategy).toBe('zero-1');
    });
  });

  test('different memory on the ranks is an error on each of them', async () => {
    await onRanks(2, async ({ rank }) => {
      const differing = auto({ memoryBytes: 320 - rank });
      await expect(train(differing, rank)).rejects.toThrow(CollectiveMismatchError);
    });
  });
});

import { cpu, type CpuBackend } from '@shardwise/backend-cpu';
import {
  CollectiveMismatchError,
  fromData,
  manualSeed,
  nn,
  optim,
  type Strategy,
  tensor,
} from '@shardwise/core';
import type { ModelSpec } from '@shardwise/core/extend';
import { auto, type AutoChoice } from '@shardwise/planner';
import { ddp, explain, fsdp, memory, parallelize, planMemory, zero } from '@shardwise/strategies';
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
  expect(explain(plan)).toContain('value by value');
  expect(() => auto({ memoryBytes: 1e4, activationBytes }).plan(model, axes)).toThrow(
    'no strategy that fits',
  );
});

test('auto() says which axes it cannot use', () => {
  expect(() => auto({ memoryBytes: 1e9 }).plan(model, [{ name: 'pp', size: 2 }])).toThrow(
    "the axis 'pp', for which it has no strategy",
  );
  expect(() => auto({ memoryBytes: 1e9 }).plan(model, [{ name: 'tp', size: 2 }])).toThrow(
    'a model that does not say how its layers are divided',
  );
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

  test('a model trains in the memory that auto() was given, with the same bits', async () => {
    const [rows, width] = [256, 64];
    const block = (): nn.Sequential =>
      new nn.Sequential(
        new nn.Linear(width, 4 * width),
        new nn.GELU(),
        new nn.Linear(4 * width, width),
      );
    const makeModel = (): nn.Sequential => new nn.Sequential(block(), block(), block(), block());
    /** Trains for two steps, and returns the losses and the most bytes that a rank had in use. */
    const steps = async (strategy: Strategy): Promise<{ losses: number[]; peak: number }> => {
      manualSeed(3);
      const model = makeModel();
      const parallel = await parallelize(model, strategy);
      const optimizer = new optim.AdamW(model.parameters(), { lr: 0.1 });
      const losses: number[] = [];
      for (let step = 0; step < 2; step++) {
        optimizer.zeroGrad();
        const x = fromData(new Float32Array(rows * width).fill(step + 1), [rows, width], 'f32');
        const loss = parallel.forward(x).square().mean();
        loss.backward();
        await optimizer.step();
        losses.push(await loss.item());
      }
      return { losses, peak: memory({ model, optimizer }).peakBytes ?? 0 };
    };
    const createDevice = (): Promise<CpuBackend> => cpu();
    const [whole] = await onRanks(2, () => steps(fsdp()), { createDevice });
    const memoryBytes = Math.round(0.9 * (whole?.peak ?? 0));
    const strategy = (): Strategy => auto({ memoryBytes, activationBytes: 4e6 });
    const [within] = await onRanks(2, () => steps(strategy()), { createDevice });
    expect(within?.losses).toEqual(whole?.losses);
    expect(within?.peak).toBeLessThan(1.05 * memoryBytes);
  });

  test('different memory on the ranks is an error on each of them', async () => {
    await onRanks(2, async ({ rank }) => {
      const differing = auto({ memoryBytes: 320 - rank });
      await expect(train(differing, rank)).rejects.toThrow(CollectiveMismatchError);
    });
  });
});

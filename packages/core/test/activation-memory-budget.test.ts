import { interpreter } from '@shardwise/testing';
import { describe, expect, test } from 'vitest';
import { checkpoint } from '../src/nn/checkpoint.ts';
import { hostPages } from '../src/paging/page.ts';
import { setRank } from '../src/rank.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import {
  activationMemoryBudget,
  type RecomputationChoice,
} from '../src/recomputation/activation-memory-budget.ts';
import { ConfigError } from '../src/spec/errors.ts';
import { fromData } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { statistics } from '../src/timeline.ts';
import { Block, plainly, rows, train, trainWithin, width } from './budgeted-training.ts';

describe('an activation memory budget', () => {
  test('of 0.6 times the bytes of a pass is kept within, with the same bits', async () => {
    const plain = await train(plainly);
    const bytes = Math.round(0.6 * plain.passBytes);
    const { values, passBytes, choices } = await trainWithin(bytes);
    expect(values).toEqual(plain.values);
    expect(passBytes).toBeLessThan(1.05 * bytes);
    expect(passBytes).toBeGreaterThan(0.95 * bytes);
    // The plan says what the device will allocate. Besides, there are the inputs of the pass, and the loss.
    expect(Math.abs(passBytes - (choices[0]?.plannedBytes ?? 0))).toBeLessThan(0.02 * bytes);
    // Later steps have the structure of the first one.
    expect(choices).toHaveLength(1);
  });

  test('compiles nothing anew in later steps', async () => {
    setRank({ device: interpreter() });
    const block = new Block();
    const policy = activationMemoryBudget({ bytes: 4.5e5 });
    const compiled: number[] = [];
    for (let step = 0; step < 3; step++) {
      const x = fromData(new Float32Array(rows * width), [rows, width], 'f32');
      const loss = checkpoint(() => block.forward(x), { policy }).mean();
      loss.backward();
      await loss.item();
      for (const parameter of block.parameters()) parameter.zeroGrad();
      compiled.push(statistics().programsCompiled);
    }
    expect(compiled[2]).toBe(compiled[0]);
  });

  test('is chosen for those passes that the backward pass comes to', () => {
    setRank({ device: interpreter() });
    const block = new Block();
    const choices: RecomputationChoice[] = [];
    const policy = activationMemoryBudget({ bytes: 1e9, onChoice: (made) => choices.push(made) });
    const loss = (): Tensor => {
      const x = fromData(new Float32Array(rows * width), [rows, width], 'f32');
      return checkpoint(() => block.forward(x), { policy }).mean();
    };
    const unused = [loss(), loss()];
    loss().backward();
    unused[0]?.backward();
    expect(choices).toHaveLength(2);
  });

  test('of a pass whose number of rows only a run knows is an error', () => {
    setRank({ device: interpreter() });
    const layer = new Linear(4, 4);
    const x = fromData(
      Float32Array.from({ length: 12 }, (_, i) => i - 6),
      [3, 4],
      'f32',
    );
    const some = x.takeRows(fromData(Int32Array.of(2), [], 'i32'));
    const policy = activationMemoryBudget({ bytes: 1e9 });
    const loss = checkpoint(() => layer.forward(some).exp(), { policy }).sum();
    expect(() => loss.backward()).toThrow(/only a run knows/);
  });

  test('takes no pages', () => {
    const policy = activationMemoryBudget({ bytes: 1e6 });
    const run = (): unknown =>
      checkpoint(() => fromData(Float32Array.of(1), [1], 'f32'), { policy, pages: hostPages() });
    expect(run).toThrow(ConfigError);
  });
});

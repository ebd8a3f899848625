import { interpreter } from '@shardwise/testing';
import { describe, expect, test } from 'vitest';
import { checkpoint } from '../src/nn/checkpoint.ts';
import { hostPages, type PageStore } from '../src/paging/page.ts';
import { setRank } from '../src/rank.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { activationMemoryBudget } from '../src/recomputation/activation-memory-budget.ts';
import type { RecomputationChoice } from '../src/recomputation/recomputation-choice.ts';
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

  test('is that of all passes in flight together, which have not been computed', async () => {
    setRank({ device: interpreter() });
    const block = new Block();
    const choices: RecomputationChoice[] = [];
    const policy = activationMemoryBudget({ bytes: 1e9, onChoice: (made) => choices.push(made) });
    const loss = (): Tensor => {
      const x = fromData(new Float32Array(rows * width), [rows, width], 'f32');
      return checkpoint(() => block.forward(x), { policy }).mean();
    };
    const evaluated = loss();
    await evaluated.item();
    loss().backward();
    const [first, second] = [loss(), loss()];
    first.backward();
    second.backward();
    expect(choices).toHaveLength(2);
    const [alone, together] = choices.map(({ bytes }) => bytes.kept);
    expect(together).toBe(2 * (alone ?? 0));
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
});

describe('an activation memory budget with pages', () => {
  /** A device of these speeds moves any value sooner than it recomputes one. */
  const slowProducts = { flopsPerSecond: 1e6, pageBytesPerSecond: 1e12 };

  test('is kept within by moving values if that is sooner than recomputing, with the same bits', async () => {
    const plain = await train(plainly);
    const bytes = Math.round(0.5 * plain.passBytes);
    const { values, passBytes, choices } = await trainWithin(bytes, {
      pages: hostPages(),
      ...slowProducts,
    });
    expect(values).toEqual(plain.values);
    expect(passBytes).toBeLessThan(1.05 * bytes);
    expect(choices).toHaveLength(1);
    const [choice] = choices;
    expect(choice?.offloaded.length).toBeGreaterThan(0);
    expect(Math.abs(passBytes - (choice?.plannedBytes ?? 0))).toBeLessThan(0.02 * bytes);
  });

  test('holds fewer bytes than recomputing alone can, and an error says how many', async () => {
    setRank({ device: interpreter() });
    const elements = 1024;
    const gradientWithin = async (bytes: number, pages?: PageStore): Promise<unknown> => {
      const x = fromData(new Float32Array(elements).fill(1), [elements], 'f32').requiresGrad_();
      const input = x.mul(2);
      const policy = activationMemoryBudget({ bytes });
      const sines = (): Tensor => Array.from({ length: 40 }).reduce<Tensor>((y) => y.sin(), input);
      checkpoint(sines, pages === undefined ? { policy } : { policy, pages })
        .sum()
        .backward();
      return x.grad?.data();
    };
    const leastOf = async (pages?: PageStore): Promise<number> => {
      const error = await gradientWithin(1, pages).catch((thrown: unknown) => thrown);
      return error instanceof ConfigError ? Number(error.fields.leastBytes) : Number.NaN;
    };
    const pages = hostPages();
    const [alone, paged] = [await leastOf(), await leastOf(pages)];
    // Of 40 values, those between √40 stretches and those of one stretch are more than the few that are on their way.
    expect(paged).toBeLessThan(0.7 * alone);
    expect(await gradientWithin(paged, pages)).toEqual(await gradientWithin(1e9));
  });
});

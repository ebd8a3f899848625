import { interpreter } from '@shardwise/testing';
import { fromData, manualSeed, setRank } from 'shardwise';
import { expect, it } from 'vitest';
import { LongModel } from '../bench/context-parallel/long-model.ts';
import { observeValues } from './support/observe-values.ts';

const sizes = { length: 64, layers: 2, width: 8, heads: 2, vocabulary: 96 };

/** The elements of the largest value of a training step, and of the largest one with inner values of a perceptron. */
async function largest(tile: number): Promise<{ any: number; inner: number; loss: number }> {
  setRank({ device: interpreter() });
  manualSeed(0);
  const { length, width, vocabulary, ...others } = sizes;
  const model = new LongModel({ ...others, width, vocabulary, tile });
  const most = { any: 0, inner: 0 };
  const stop = observeValues((shape, elements) => {
    most.any = Math.max(most.any, elements);
    if (shape.at(-1) === 4 * width) most.inner = Math.max(most.inner, elements);
  });
  const tokens = (from: number) =>
    fromData(
      Int32Array.from({ length }, (_, i) => ((from + i) * 5) % vocabulary),
      [1, length],
      'i32',
    );
  const loss = model.forward(tokens(0), tokens(1));
  loss.backward();
  for (const { grad } of model.parameters()) await grad?.realize();
  const value = await loss.item();
  stop();
  return { ...most, loss: value };
}

it('a step on a long sequence has no value larger than logits of two tiles of tokens, or inner values of two tiles', async () => {
  const { length, width, vocabulary } = sizes;
  const whole = await largest(length);
  expect(whole).toMatchObject({ any: length * vocabulary, inner: length * 4 * width });
  for (const tile of [16, 24]) {
    const found = await largest(tile);
    expect(found.any).toBeLessThanOrEqual(2 * tile * vocabulary);
    expect(found.inner).toBeLessThanOrEqual(2 * tile * 4 * width);
    expect(found.loss).toBeCloseTo(whole.loss, 5);
  }
});

import { observeGraph } from '@shardwise/core/extend';
import { interpreter } from '@shardwise/testing';
import { fromData, manualSeed, setRank } from 'shardwise';
import { expect, it } from 'vitest';
import { LongModel } from '../bench/context-parallel/long-model.ts';

const sizes = { length: 64, layers: 2, width: 8, heads: 2, vocabulary: 96 };

/** The most tokens of a value of a training step that has an element for each class, or for each inner unit of a perceptron. */
async function mostTokens(tile: number): Promise<{ classes: number; inner: number; loss: number }> {
  setRank({ device: interpreter() });
  manualSeed(0);
  const model = new LongModel({ ...sizes, tile });
  const most = { classes: 0, inner: 0 };
  const { width, vocabulary, length } = sizes;
  const stop = observeGraph({
    gradient() {},
    backward() {},
    remade() {},
    update() {},
    run(nodes) {
      for (const { shape } of nodes) {
        const rows = shape.slice(0, -1).reduce((count, size) => count * size, 1);
        // Weights and their gradients have as many rows as a layer has features.
        if (rows <= width) continue;
        if (shape.at(-1) === vocabulary) most.classes = Math.max(most.classes, rows);
        if (shape.at(-1) === 4 * width) most.inner = Math.max(most.inner, rows);
      }
    },
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

it('a step on a long sequence has logits and the inner values of perceptrons for no more than two tiles of tokens', async () => {
  const whole = await mostTokens(sizes.length);
  expect(whole).toMatchObject({ classes: sizes.length, inner: sizes.length });
  for (const tile of [16, 24]) {
    const found = await mostTokens(tile);
    expect(found.classes).toBeGreaterThan(0);
    expect(found.classes).toBeLessThanOrEqual(2 * tile);
    expect(found.inner).toBeLessThanOrEqual(2 * tile);
    expect(found.loss).toBeCloseTo(whole.loss, 5);
  }
});

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { data, fromArray, init, manualSeed, nn, optim } from 'shardwise';
import { CLASSES, spirals } from '../src/data.ts';
import { Classifier } from '../src/model.ts';

const context = await init();
after(() => context.close());

function batch(points: number) {
  const dataset = spirals(points, 3);
  return data.collate(Array.from({ length: points }, (_, index) => dataset.get(index)));
}

describe('spirals', () => {
  test('are the same for the same seed, and have as many points of each class', () => {
    assert.deepEqual(batch(30), batch(30));
    for (let spiral = 0; spiral < CLASSES; spiral++) {
      assert.equal(batch(30).y.data.filter((label) => label === spiral).length, 30 / CLASSES);
    }
  });
});

describe('the classifier', () => {
  test('gives a row of logits for each point', () => {
    const model = new Classifier(8, CLASSES);
    assert.deepEqual(model.forward(fromArray(batch(6).x)).shape, [6, CLASSES]);
  });

  test('learns one batch by heart', async () => {
    manualSeed(1);
    const model = new Classifier(32, CLASSES);
    const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-2 });
    const { x, y } = batch(30);
    const losses: number[] = [];
    for (let step = 0; step < 100; step++) {
      const loss = nn.functional.crossEntropy(model.forward(fromArray(x)), fromArray(y));
      optimizer.zeroGrad();
      loss.backward();
      await optimizer.step();
      losses.push(await loss.item());
    }
    assert.ok((losses.at(-1) ?? Infinity) < 0.2 * (losses[0] ?? 0), `loss ${losses.at(-1)}`);
  });
});

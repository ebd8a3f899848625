import { cpu } from '@shardwise/backend-cpu';
import { onRanks } from '@shardwise/testing/node';
import { dist, fromData, manualSeed, optim } from 'shardwise';
import { expect, it } from 'vitest';
import { LongModel } from '../bench/context-parallel/long-model.ts';
import { observeValues } from './support/observe-values.ts';

const ranks = 4;
const sizes = { length: 16_384, layers: 1, width: 64, heads: 2, vocabulary: 4096, tile: 256 };
const floatBytes = Float32Array.BYTES_PER_ELEMENT;

interface Memory {
  /** The most bytes that the device of a rank had in use at once. */
  readonly peakBytes: number;
  /** Bytes of parameters, gradients and both moments of AdamW. */
  readonly stateBytes: number;
  /** The elements of the largest value that a step computed. */
  readonly largest: number;
  readonly losses: readonly number[];
}

async function train(): Promise<readonly Memory[]> {
  return onRanks(
    ranks,
    async ({ device }) => {
      manualSeed(0);
      const model = new LongModel(sizes);
      const parallel = await dist.parallelize(
        model,
        dist.compose(
          dist.contextParallel({ axis: 'cp', lossWeight: 'tokens' }),
          dist.ddp({ axis: 'cp' }),
        ),
      );
      const optimizer = new optim.AdamW(model.parameters(), { lr: 3e-3 });
      const { length, vocabulary } = sizes;
      const tokens = (from: number) =>
        fromData(
          Int32Array.from({ length }, (_, i) => ((from + i) * 5) % vocabulary),
          [1, length],
          'i32',
        );
      const [ids, labels] = [tokens(0), tokens(1)];
      let largest = 0;
      const stop = observeValues((_, elements) => {
        largest = Math.max(largest, elements);
      });
      const losses: number[] = [];
      for (let step = 0; step < 2; step++) {
        optimizer.zeroGrad();
        const loss = parallel.forward(ids, labels);
        loss.backward();
        await optimizer.step();
        losses.push(await loss.item());
      }
      stop();
      const parameters = model.parameters().reduce((sum, { numel }) => sum + numel, 0);
      return {
        peakBytes: device.usage?.().peakBytes ?? Number.NaN,
        stateBytes: 4 * floatBytes * parameters,
        largest,
        losses,
      };
    },
    { axes: [{ name: 'cp', size: ranks }], createDevice: () => cpu({ byteLength: 2 ** 28 }) },
  );
}

it('ranks of a long sequence keep their states, two dozen values of their tokens, and a tile of logits', async () => {
  const found = await train();
  const { length, width, vocabulary, tile } = sizes;
  const tokenBytes = (length / ranks) * width * floatBytes;
  const tileElements = tile * Math.max(vocabulary, 4 * width);
  expect(found).toHaveLength(ranks);
  for (const { peakBytes, stateBytes, largest, losses } of found) {
    expect(largest).toBeLessThanOrEqual(2 * tileElements);
    expect(peakBytes).toBeLessThan(stateBytes + 24 * tokenBytes + floatBytes * tileElements);
    expect(losses).toEqual(losses.toSorted((a, b) => b - a));
  }
}, 600_000);

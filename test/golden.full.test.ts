import { cpu, manualSeed, setRank } from 'shardwise';
import { onRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, test } from 'vitest';
import { floats, readGolden, withPrefix } from './golden/golden-file.ts';
import { goldenModels, goldenNames, type GoldenModel } from './golden/models.ts';
import { adamwLearningRate, optimizerNames } from './golden/optimizers.ts';
import { type RankTraining, trainAll } from './golden/train-models.ts';
import { onCpu } from './support/on-cpu.ts';

// Compares our training with the one that PyTorch recorded (tools/golden-training.py), on one rank and on several ranks
// that share the same global batch of 12.

const STEPS = 20;

/**
 * The largest difference in a tensor, relative to its largest magnitude. Sums in another order differ by rounding
 * errors of the size of their largest terms, so the relative error of an element near zero means nothing. A tensor is
 * right if all its elements are close on the tensor's own scale.
 */
const TOLERANCE = 5e-6;

/** Adam divides each gradient by its own size, which enlarges rounding errors of small gradients. */
const ADAM_TOLERANCE = 1e-4;

describe('initial weights', () => {
  beforeAll(async () => setRank({ device: await cpu() }));

  test.each(goldenNames)('%s: the seed of PyTorch gives the bits of PyTorch', async (name) => {
    const { seed, tensors } = await readGolden(name);
    manualSeed(seed);
    const model: GoldenModel = goldenModels[name]();
    const golden = withPrefix(tensors, 'initial');
    expect(
      model
        .namedParameters()
        .map(([key]) => key)
        .toSorted(),
    ).toEqual(Object.keys(golden).toSorted());
    for (const [key, parameter] of model.namedParameters()) {
      const expected = golden[key];
      expect(parameter.shape, key).toEqual(expected?.shape);
      expect(await parameter.data(), key).toEqual(expected && floats(expected));
    }
  });
});

/** What the ranks of each size return. */
const trained = new Map<number, readonly (readonly RankTraining[])[]>();

describe.each([1, 2, 3, 4])('training on %i ranks', (size) => {
  beforeAll(async () => {
    trained.set(size, await trainOn(size));
  });

  describe.each(goldenNames)('%s', (model) => {
    describe.each(optimizerNames)('with %s', (optimizer) => {
      const each = (): RankTraining[] =>
        (trained.get(size) ?? []).map((trainings) => {
          const found = trainings.find((one) => one.model === model && one.optimizer === optimizer);
          if (found === undefined)
            throw new RangeError(`${model} was not trained with ${optimizer}`);
          return found;
        });

      test('has the losses of PyTorch at each step', async () => {
        const { [optimizer]: golden } = withPrefix((await readGolden(model)).tensors, 'losses');
        const curves = each().map(({ losses }) => losses);
        const mean = Float32Array.from(
          { length: STEPS },
          (_, step) => curves.reduce((sum, losses) => sum + (losses[step] ?? Number.NaN), 0) / size,
        );
        expect(differenceOnScale(mean, golden && floats(golden))).toBeLessThan(TOLERANCE);
      });

      test('has the gradients of PyTorch at the first step', async () => {
        const golden = withPrefix((await readGolden(model)).tensors, 'gradient');
        for (const [key, expected] of Object.entries(golden)) {
          for (const { gradients } of each()) {
            expect(differenceOnScale(gradients[key], floats(expected)), key).toBeLessThan(
              TOLERANCE,
            );
          }
        }
      });

      test('has the parameters of PyTorch after the last step', async () => {
        const golden = withPrefix((await readGolden(model)).tensors, optimizer);
        for (const { parameters } of each()) {
          expect(Object.keys(parameters).toSorted()).toEqual(Object.keys(golden).toSorted());
          for (const [key, expected] of Object.entries(golden)) {
            const values = [parameters[key] ?? new Float32Array(), floats(expected)] as const;
            const [ours, theirs] =
              optimizer === 'adamw' && isAttentionBias(key) ? checkKeyBias(values) : values;
            expect(differenceOnScale(ours, theirs), key).toBeLessThan(
              optimizer === 'adamw' ? ADAM_TOLERANCE : TOLERANCE,
            );
          }
        }
      });

      test('leaves the same bits on all ranks at each step', () => {
        const [first, ...others] = each().map(({ hashes }) => hashes);
        expect(new Set(first)).toHaveProperty('size', STEPS);
        for (const other of others) expect(other).toEqual(first);
      });
    });
  });
});

test('two trainings on two ranks give the same bits', async () => {
  expect(trained.get(2)).toHaveLength(2);
  expect(await trainOn(2)).toEqual(trained.get(2));
});

function trainOn(size: number): Promise<readonly (readonly RankTraining[])[]> {
  return onRanks(size, ({ rank }) => trainAll(rank, size), onCpu);
}

function isAttentionBias(name: string): boolean {
  return name.endsWith('qkv.bias') || name.endsWith('in_proj_bias');
}

/**
 * Softmax does not depend on the bias of the keys, so the gradient of this bias is rounding noise, which Adam divides
 * by itself. Only one thing can be checked: no step moves it further than the learning rate. Returns the biases of
 * queries and values.
 */
function checkKeyBias(values: readonly [Float32Array, Float32Array]): readonly Float32Array[] {
  const third = values[0].length / 3;
  const [ours, theirs] = values.map((bias) => bias.subarray(third, 2 * third));
  expect(maxDifference(ours ?? [], theirs ?? [])).toBeLessThan(2 * adamwLearningRate * STEPS);
  return values.map((bias) =>
    Float32Array.of(...bias.subarray(0, third), ...bias.subarray(2 * third)),
  );
}

function maxDifference(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  let max = actual.length === expected.length ? 0 : Number.NaN;
  for (let index = 0; index < expected.length; index++) {
    max = Math.max(max, Math.abs((actual[index] ?? Number.NaN) - (expected[index] ?? Number.NaN)));
  }
  return max;
}

function differenceOnScale(
  actual: Float32Array | undefined,
  expected: Float32Array | undefined,
): number {
  if (actual === undefined || expected === undefined) return Number.NaN;
  const scale = expected.reduce((max, value) => Math.max(max, Math.abs(value)), 0);
  return maxDifference(actual, expected) / scale;
}

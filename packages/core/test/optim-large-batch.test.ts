import { describeDifference, interpreter } from '@shardwise/testing';
import * as fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { LocalMesh } from '../src/mesh.ts';
import { Lamb } from '../src/optim/lamb.ts';
import { oneBitPartElements, packSigns, unpackSigns } from '../src/optim/one-bit-mean.ts';
import { setRank } from '../src/rank.ts';
import { fromData, tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

beforeEach(() => setRank({ device: interpreter(), mesh: new LocalMesh() }));

async function values(x: Tensor): Promise<number[]> {
  return Array.from(await x.data(), Number);
}

/** A loss whose gradient at x is x - [1, 2, 3]. */
function lossAt(x: Tensor): Tensor {
  return x
    .sub(tensor([1, 2, 3]))
    .square()
    .sum()
    .mul(0.5);
}

/** Computes Algorithm 2 of You et al. 2020 in f64, with weight decay 0.1. */
function lambSteps(start: readonly number[], steps: number, lr: number): number[] {
  let x = [...start];
  const m = x.map(() => 0);
  const v = x.map(() => 0);
  for (let step = 1; step <= steps; step++) {
    const direction = x.map((value, i) => {
      const g = value - (i + 1);
      m[i] = 0.9 * (m[i] ?? 0) + 0.1 * g;
      v[i] = 0.999 * (v[i] ?? 0) + 0.001 * g * g;
      const mean = (m[i] ?? 0) / (1 - 0.9 ** step);
      return mean / (Math.sqrt((v[i] ?? 0) / (1 - 0.999 ** step)) + 1e-6) + 0.1 * value;
    });
    const [length, stepLength] = [Math.hypot(...x), Math.hypot(...direction)];
    const ratio = length > 0 && stepLength > 0 ? length / stepLength : 1;
    x = x.map((value, i) => value - lr * ratio * (direction[i] ?? 0));
  }
  return x;
}

describe('Lamb', () => {
  test.each([1, 2, 10])('takes %i steps as the paper writes them', async (steps) => {
    const start = [0.5, -1, 2];
    const x = tensor(start).requiresGrad_();
    const optimizer = new Lamb([x], { lr: 0.05, weightDecay: 0.1 });
    for (let step = 0; step < steps; step++) {
      optimizer.zeroGrad();
      lossAt(x).backward();
      await optimizer.step();
    }
    const expected = lambSteps(start, steps, 0.05);
    expect(describeDifference(await values(x), expected)).toBeUndefined();
  });

  test('moves parameters of zeros by the direction itself', async () => {
    const x = tensor([0, 0, 0]).requiresGrad_();
    const optimizer = new Lamb([x], { lr: 0.5, weightDecay: 0 });
    lossAt(x).backward();
    await optimizer.step();
    expect(describeDifference(await values(x), [0.5, 0.5, 0.5])).toBeUndefined();
  });

  test('does not move where there is no gradient', async () => {
    const x = tensor([1, 2, 3]).requiresGrad_();
    const optimizer = new Lamb([x], { weightDecay: 0 });
    lossAt(x).backward();
    await optimizer.step();
    expect(await values(x)).toEqual([1, 2, 3]);
  });
});

describe('the signs of values', () => {
  test('come back from an eighth of a byte each', async () => {
    const numbers = fc.float({ noNaN: true, noDefaultInfinity: true });
    const eights = fc.array(numbers, { minLength: 1, maxLength: 40 }).map((list) => {
      return Float32Array.from({ length: list.length * 8 }, (_, i) => list[i % list.length] ?? 0);
    });
    await fc.assert(
      fc.asyncProperty(eights, async (list) => {
        const packed = packSigns(fromData(list, [list.length], 'f32'));
        expect(packed.shape).toEqual([list.length / 8]);
        const found = await values(unpackSigns(packed));
        expect(found).toEqual(Array.from(list, (value) => (value >= 0 ? 1 : -1)));
      }),
      { numRuns: 20 },
    );
  });

  test('are shared out in whole bytes', () => {
    expect(oneBitPartElements(1, 4)).toBe(8);
    expect(oneBitPartElements(64, 4)).toBe(16);
    expect(oneBitPartElements(65, 4)).toBe(24);
  });
});

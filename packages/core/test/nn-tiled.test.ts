import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { observeValues } from '../../../test/support/observe-values.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { tiled } from '../src/nn/tiled.ts';
import { manualSeed } from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import { fromData } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

beforeEach(() => {
  setRank({ device: interpreter() });
  manualSeed(0);
});

const [rows, tokens, width, inner] = [2, 10, 3, 24];

function inputOf(): Tensor {
  const numbers = Array.from({ length: rows * tokens * width }, (_, i) => Math.sin(i));
  return fromData(Float32Array.from(numbers), [rows, tokens, width], 'f32').requiresGrad_();
}

/** The result and the gradients of a perceptron, and the most elements of a value that was computed for them. */
async function perceptron(tile: number | null): Promise<{ numbers: number[]; most: number }> {
  manualSeed(0);
  const [up, down, x] = [new Linear(width, inner), new Linear(inner, width), inputOf()];
  const forward = (part: Tensor): Tensor => down.forward(up.forward(part).gelu());
  let most = 0;
  const stop = observeValues((_, elements) => {
    most = Math.max(most, elements);
  });
  const y = tile === null ? forward(x) : tiled(forward, x, { tile });
  y.square().sum().backward();
  const found: number[] = [];
  for (const each of [y, x.grad, up.weight.grad, down.weight.grad, up.bias?.grad]) {
    found.push(...Array.from((await each?.data()) ?? [], Number));
  }
  stop();
  return { numbers: found, most };
}

describe('tiled', () => {
  it.each([1, 4, 10, 16])(
    'gives tiles of %i tokens the values and gradients of all',
    async (tile) => {
      const [expected, found] = [await perceptron(null), await perceptron(tile)];
      expect(found.numbers).toHaveLength(expected.numbers.length);
      found.numbers.forEach((value, i) => expect(value).toBeCloseTo(expected.numbers[i] ?? NaN, 4));
    },
  );

  it('never has the inner values of more than one tile', async () => {
    expect((await perceptron(null)).most).toBe(rows * tokens * inner);
    expect((await perceptron(2)).most).toBe(rows * 2 * inner);
  });

  it('refuses a tile without tokens', () => {
    expect(() => tiled((x) => x, inputOf(), { tile: 0 })).toThrow(/tiled with tile: 0/);
  });
});

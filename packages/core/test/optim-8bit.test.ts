import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { cpu } from '@shardwise/backend-cpu';
import { AdamW } from '../src/optim/adam.ts';
import { AdamW8bit } from '../src/optim/adam-w-8bit.ts';
import { dequantize, quantize } from '../src/optim/block-quantization.ts';
import { type DynamicMap, signedMap, unsignedMap } from '../src/optim/dynamic-map.ts';
import { setRank } from '../src/rank.ts';
import { fromData } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

beforeEach(() => setRank({ device: interpreter() }));

async function values(x: Tensor): Promise<number[]> {
  return Array.from(await x.data(), Number);
}

function f32(list: Iterable<number>): Tensor {
  const data = Float32Array.from(list);
  return fromData(data, [data.length], 'f32');
}

/** The table of the paper's authors for 8 bits, with at most 7 bits of exponent. */
function table(signed: boolean): number[] {
  const numbers = [0, 1];
  for (let exponent = 0; exponent < 7; exponent++) {
    const count = 2 ** (exponent + (signed ? 0 : 1));
    for (let i = 0; i < count; i++) {
      const mean = (0.1 + (0.9 * (i + 0.5)) / count) * 10 ** (exponent - 6);
      numbers.push(mean, ...(signed ? [-mean] : []));
    }
  }
  return numbers.sort((a, b) => a - b);
}

function noise(count: number): number[] {
  let state = 7;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return state / 2 ** 31;
  });
}

describe.each([
  ['with a sign', signedMap, true],
  ['without', unsignedMap, false],
] as const)('the dynamic map %s', (_, map: DynamicMap, signed) => {
  test('has the numbers of the paper', async () => {
    const codes = fromData(
      Uint8Array.from({ length: 256 }, (_code, i) => i),
      [256],
      'u8',
    );
    const found = (await values(map.decode(codes))).sort((a, b) => a - b);
    const wanted = table(signed);
    expect(wanted).toHaveLength(256);
    found.forEach((value, i) => expect(Math.abs(value - (wanted[i] ?? NaN))).toBeLessThan(1e-7));
  });

  test('gives each number its own code back', async () => {
    const codes = Uint8Array.from({ length: 256 }, (_code, i) => i);
    const decoded = map.decode(fromData(codes, [256], 'u8'));
    expect(await map.encode(decoded).data()).toEqual(codes);
  });

  test('chooses the nearest', async () => {
    const numbers = table(signed);
    const spread = noise(500).flatMap((x) => [x, x / 100, x / 1e4, x / 1e6]);
    const list = signed ? [...spread, -1, 1, 0] : [...spread.map(Math.abs), 1, 0];
    const found = await values(map.decode(map.encode(f32(list))));
    list.forEach((x, i) => {
      const nearest = Math.min(...numbers.map((number) => Math.abs(number - Math.fround(x))));
      const isKept = !signed && x > 0 && x < 2e-7;
      const error = Math.abs((found[i] ?? NaN) - Math.fround(x));
      if (!isKept) expect(error).toBeLessThanOrEqual(nearest + 2e-7 * Math.abs(x));
      else expect(found[i]).toBeGreaterThan(0);
    });
  });
});

test('every block has a scale of its own, and blocks of zeros stay zeros', async () => {
  const list = [...noise(256).map((x) => x * 1e-12), ...Array.from({ length: 256 }, () => 0), 1e9];
  const quantized = quantize(f32(list), signedMap);
  expect(quantized.codes.shape).toEqual([3, 256]);
  const back = await values(dequantize(quantized, signedMap, [list.length]));
  list.forEach((x, i) => {
    const scale = i < 256 ? 1e-12 : x;
    expect(Math.abs((back[i] ?? NaN) - x)).toBeLessThanOrEqual(0.01 * scale);
  });
});

describe.each([
  ['the interpreter', async () => interpreter()],
  ['the CPU', () => cpu()],
] as const)('on %s', (_, device) => {
  test.each([
    ['with a sign', signedMap, true],
    ['without', unsignedMap, false],
  ] as const)(
    'what was dequantized has the codes and scales that it came from: %s',
    async (name, map, signed) => {
      setRank({ device: await device() });
      // The largest magnitude of a block is positive, negative or both. The magnitudes range from f32's smallest
      // numbers to its largest.
      const magnitudes = [1, 1e-3, 1e-20, 1e-33, 1e-40, 1e30, 0];
      const blocks = magnitudes.flatMap((magnitude, block) =>
        [-1, 1].map((sign) => {
          const list = noise(256 + block).slice(block);
          const largest = Math.max(...list.map(Math.abs)) * 1.5 * sign;
          const numbers = [largest, ...list.slice(1)].map((x) => x * magnitude);
          return signed ? numbers : numbers.map(Math.abs);
        }),
      );
      const both = noise(255).flatMap((x, i) => (i === 0 ? [2, signed ? -2 : 2] : [Math.abs(x)]));
      const x = f32([...blocks.flat(), ...both]);
      const first = quantize(x, map);
      const back = await dequantize(first, map, x.shape).realize();
      const second = quantize(back, map);
      expect(await values(second.codes), name).toEqual(await values(first.codes));
      expect(await values(second.scales), name).toEqual(await values(first.scales));
      expect(await values(dequantize(second, map, x.shape))).toEqual(await values(back));
    },
  );
});

/** A least-squares loss on noise, whose minimum is not 0. */
function lossOf(weights: Tensor, step: number): Tensor {
  const [rows, columns] = [32, 80];
  const all = noise(rows * columns + rows * 64);
  const x = fromData(Float32Array.from(all.slice(0, rows * columns)), [rows, columns], 'f32');
  const y = fromData(Float32Array.from(all.slice(rows * columns)), [rows, 64], 'f32');
  return x
    .matmul(weights)
    .sub(y)
    .square()
    .mean()
    .mul(1 + (step % 3) / 10);
}

function weightsOf(): Tensor {
  return fromData(
    Float32Array.from(noise(80 * 64), (x) => x / 4),
    [80, 64],
    'f32',
  ).requiresGrad_();
}

async function train(weights: Tensor, optimizer: AdamW | AdamW8bit, steps: number, first = 0) {
  const losses: number[] = [];
  for (let step = first; step < first + steps; step++) {
    optimizer.zeroGrad();
    const loss = lossOf(weights, step);
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}

describe('AdamW8bit', () => {
  beforeEach(async () => setRank({ device: await cpu() }));

  test('keeps two bytes for each element, where AdamW keeps eight', async () => {
    const weights = weightsOf();
    const optimizer = new AdamW8bit([weights]);
    await train(weights, optimizer, 1);
    const tensors = [...(optimizer.stateOf(weights)?.tensors.values() ?? [])];
    const bytes = await Promise.all(tensors.map(async (each) => (await each.data()).byteLength));
    const scales = (2 * 4) / 256;
    expect(bytes.reduce((sum, each) => sum + each, 0)).toBe((2 + scales) * weights.numel);
  });

  test('learns as AdamW does', async () => {
    const [plain, small] = [weightsOf(), weightsOf()];
    const expected = await train(plain, new AdamW([plain], { lr: 0.01 }), 150);
    const found = await train(small, new AdamW8bit([small], { lr: 0.01 }), 150);
    const [first = NaN, last = NaN] = [expected[0], expected.at(-1)];
    expect(last).toBeLessThan(first / 10);
    expect(Math.abs((found.at(-1) ?? NaN) - last)).toBeLessThan(0.01 * first);
  });

  test('is AdamW for small parameters', async () => {
    const [plain, small] = [weightsOf(), weightsOf()];
    const expected = await train(plain, new AdamW([plain]), 3);
    const optimizer = new AdamW8bit([small], {}, { minElements: 80 * 64 + 1 });
    expect(await train(small, optimizer, 3)).toEqual(expected);
  });

  test('goes on from a saved state with the same bits', async () => {
    const [whole, halves] = [weightsOf(), weightsOf()];
    await train(whole, new AdamW8bit([whole]), 4);
    const first = new AdamW8bit([halves]);
    await train(halves, first, 2);
    const second = new AdamW8bit([halves]);
    second.loadStateDict(await first.stateDict());
    await train(halves, second, 2, 2);
    expect(await halves.data()).toEqual(await whole.data());
  });
});

import { cpu } from '@shardwise/backend-cpu';
import {
  concat,
  dynamic,
  fromData,
  manualSeed,
  nn,
  ones,
  optim,
  OutOfMemoryError,
  setRank,
  statistics,
  type Tensor,
  tensor,
  TensorStateError,
  varyingSizes,
} from '@shardwise/core';
import type { Backend } from '@shardwise/core/spec';
import { assertAllclose, interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

/** Makes the device need a program for each size. */
function withoutSizes(device: Backend): Backend {
  return Object.defineProperty(device, 'compileSized', { value: undefined });
}

/** Returns a function that draws integers from `from` to `to`. They are the same in each run. */
function draws(seed: number): (from: number, to: number) => number {
  let state = seed;
  return (from, to) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return from + ((state >>> 8) % (to - from + 1));
  };
}

async function plansOf(body: () => Promise<unknown>): Promise<{ all: number; sized: number }> {
  const before = statistics();
  await body();
  const after = statistics();
  return {
    all: after.plansMade - before.plansMade,
    sized: after.sizedPlansMade - before.sizedPlansMade,
  };
}

/** Trains a small language model with attention on batches of these shapes. Returns the losses. */
async function train(
  shapes: readonly (readonly [rows: number, length: number])[],
  afterStep: (step: number) => void = () => {},
): Promise<number[]> {
  manualSeed(0);
  const tokens = new nn.Embedding(50, 16);
  const positions = new nn.Embedding(130, 16);
  const norm = new nn.LayerNorm(16);
  const head = new nn.Sequential(new nn.Linear(16, 32), new nn.GELU(), new nn.Linear(32, 50));
  const modules = [tokens, positions, norm, head];
  const optimizer = new optim.AdamW(modules.flatMap((module) => module.parameters()));
  const losses: number[] = [];
  for (const [rows, length] of shapes) {
    const data = Int32Array.from({ length: rows * (length + 1) }, (_, i) => (i * 7) % 50);
    const ids = fromData(data, [rows, length + 1], 'i32');
    const x = tokens.forward(ids.slice(1, 0, length)).add(positions.weight.slice(0, 0, length));
    const heads = x.reshape([rows, length, 2, 8]).transpose(1, 2);
    const attended = nn.functional.scaledDotProductAttention(heads, heads, heads, { causal: true });
    const logits = head.forward(norm.forward(attended.transpose(1, 2).flatten(2).add(x)));
    const loss = nn.functional.crossEntropy(logits, ids.slice(1, 1, length + 1));
    optimizer.zeroGrad();
    loss.backward();
    await optimizer.step();
    afterStep(losses.push(await loss.item()));
  }
  return losses;
}

/** 165 different lengths. */
const lengths = Array.from({ length: 165 }, (_, i) => 17 + ((i * 67) % 112));

describe('a program whose lengths differ from run to run', () => {
  it('makes at most eight plans for 112 lengths, and one that serves all of them in the end', async () => {
    setRank({ device: await cpu() });
    const shapes = lengths.map((length) => [6, length] as const);
    const plans = await plansOf(() => train(shapes));
    expect(plans.all).toBeLessThanOrEqual(8);
    expect(await plansOf(() => train(shapes.slice(0, 3)))).toEqual({ all: 0, sized: 0 });
  });

  it.each([
    ['cpu', cpu],
    ['the interpreter', async () => interpreter()],
  ])('has the losses of plans for each size, bit for bit, on %s', async (_, create) => {
    const draw = draws(1);
    const shapes = Array.from({ length: 8 }, () => [draw(2, 9), draw(3, 40)] as const);
    setRank({ device: await create() });
    const losses = await train(shapes);
    setRank({ device: withoutSizes(await create()) });
    expect(losses).toEqual(await train(shapes));
  });

  it('takes no more memory with every run', async () => {
    const device = await cpu();
    setRank({ device });
    const shapes = lengths.slice(0, 40).map((length) => [16, length] as const);
    const inUse: number[] = [];
    await train([[16, 100], [16, 128], ...shapes], () => {
      inUse.push(device.usage().bytesInUse);
    });
    expect(inUse.at(-1)).toBeLessThanOrEqual(Math.max(...inUse.slice(0, 10)));
  });

  it('has plans of their own for rows of one and for none', async () => {
    setRank({ device: await cpu() });
    for (const rows of [5, 3, 1, 7, 0, 1, 4]) {
      const x = ones([rows, 4]);
      expect(await x.mul(2).sum([0]).data()).toEqual(
        Float32Array.from([2, 2, 2, 2], (v) => v * rows),
      );
    }
  });

  it('makes another plan where sizes were related by chance', async () => {
    setRank({ device: await cpu() });
    for (const [rows, columns] of [
      [4, 40],
      [5, 41],
      [9, 20],
      [6, 60],
    ] as const) {
      const x = ones([rows, columns]).matmul(ones([columns, rows]));
      expect(await x.sum().item()).toBe(rows * rows * columns);
    }
  });

  it('makes one plan where the sum of two sizes is more frequent than these', async () => {
    setRank({ device: await cpu() });
    const { all } = await plansOf(async () => {
      for (const [a, b] of [
        [26, 22],
        [18, 13],
        [26, 29],
        [11, 40],
        [60, 7],
        [9, 64],
      ] as const) {
        const x = concat([ones([a, 3]), ones([b, 3])], 0);
        const y = x
          .reshape([a + b, 3, 1])
          .exp()
          .reshape([3, a + b])
          .reshape([a + b, 3]);
        expect(
          await y
            .slice(0, a, a + b)
            .sum()
            .item(),
        ).toBeCloseTo(3 * b * Math.E, 2);
      }
    });
    // For the first run, for two that are related by chance, and for all.
    expect(all).toBeLessThanOrEqual(3);
  });

  it('computes what lies between two sizes that vary apart, also where it is one row or none', async () => {
    setRank({ device: await cpu() });
    const table = tensor(Array.from({ length: 40 }, (_, i) => [i, -i]));
    for (const [start, stop] of [
      [3, 6],
      [4, 9],
      [2, 3],
      [5, 30],
      [7, 7],
      [6, 8],
      [2, 40],
    ] as const) {
      const rows = Array.from({ length: stop - start }, (_, i) => [start + i, -start - i]);
      const y = table.slice(0, 0, stop).slice(0, start, stop).mul(1);
      const found = Array.from(await y.data(), Number);
      expect(found.map((value) => value + 0)).toEqual(rows.flat());
    }
  });

  it('has a plan for even and one for odd lengths where a convolution halves them', async () => {
    setRank({ device: await cpu() });
    const lengths = [24, 41, 32, 59, 44, 37, 28, 63, 30, 25, 50, 61, 46, 33, 62, 35];
    const weight = ones([1, 1, 3, 3]).mul(1).detach();
    const made: number[] = [];
    for (const length of lengths) {
      const data = Float32Array.from({ length: length * 4 }, (_, i) => Math.floor(i / 4));
      const x = fromData(data, [1, 1, length, 4], 'f32').requiresGrad_();
      const plans = await plansOf(async () => {
        const y = nn.functional.conv2d(x, weight, null, { stride: 2, padding: 1 });
        y.sum().backward();
        // Windows begin at every second row and have three rows.
        const rows = Array.from({ length }, (_, row) => (row % 2 === 0 ? 1 : 2));
        if (length % 2 === 0) rows[length - 1] = 1;
        const total = rows.reduce((sum, times, row) => sum + times * row * 5, 0);
        expect(await y.sum().item()).toBe(total);
        const slopes = rows.flatMap((times) => [1, 2, 1, 1].map((columns) => columns * times));
        expect([...((await x.grad?.data()) ?? [])]).toEqual(slopes);
      });
      made.push(plans.all);
    }
    expect(made.slice(-4).reduce((sum, plans) => sum + plans)).toBe(0);
  });

  it('computes slices, pads, concatenations and what is empty at some size', async () => {
    setRank({ device: await cpu() });
    for (const size of [5, 9, 31, 32, 64, 2]) {
      const x = tensor(Array.from({ length: size }, (_, i) => i));
      const y = concat([x.slice(0, 1, size), x.pad([0], [64 - size], 7), x.slice(0, 2, size)], 0);
      const data = Array.from({ length: size }, (_, i) => i);
      const padded = [...data, ...Array.from({ length: 64 - size }, () => 7)];
      expect([...(await y.data())]).toEqual([...data.slice(1), ...padded, ...data.slice(2)]);
    }
  });
});

describe('random programs of random sizes', () => {
  type Draw = (from: number, to: number) => number;
  /** A random program. `draw` determines the ops, and they do not depend on the sizes. */
  function program(draw: Draw, n: number, m: number, x: Tensor, w: Tensor): Tensor {
    const ops: readonly ((t: Tensor) => Tensor)[] = [
      (t) => t.add(1).mul(0.5),
      (t) => t.tanh(),
      (t) => t.softmax(1),
      (t) => t.matmul(w).tanh(),
      (t) => t.sub(t.mean([0], { keepDim: true })),
      (t) => t.div(t.square().sum([1], { keepDim: true }).add(1)),
      (t) =>
        t
          .transpose(0, 1)
          .reshape([n * m])
          .reshape([m, n])
          .transpose(0, 1),
      (t) => concat([t.slice(0, 1, n), t.slice(0, 0, 1)], 0),
      (t) => t.cumsum(0).div(n),
      (t) => t.mul(t.sum([0]).expand([n, m]).sigmoid()),
      (t) => t.matmul(t.transpose(0, 1)).softmax(1).matmul(t),
      (t) => t.pad([1, 0], [0, 0]).slice(0, 0, n),
    ];
    let t = x;
    for (let step = 0; step < 7; step++) t = ops[draw(0, ops.length - 1)]?.(t) ?? t;
    return t;
  }

  async function run(seed: number): Promise<(readonly Float32Array[])[]> {
    const results: (readonly Float32Array[])[] = [];
    const sizes = draws(100 + seed);
    for (let index = 0; index < 5; index++) {
      const [n, m] = [sizes(3, 24), sizes(3, 24)];
      const values = (count: number) =>
        Float32Array.from({ length: count }, (_, i) => ((i * 37) % 19) / 19);
      const x = fromData(values(n * m), [n, m], 'f32').requiresGrad_();
      const y = program(draws(seed), n, m, x, fromData(values(m * m), [m, m], 'f32'));
      const loss = y.square().mean();
      loss.backward();
      const gradient = await x.grad?.data();
      results.push([await y.data(), gradient ?? []].map((data) => Float32Array.from(data, Number)));
    }
    return results;
  }

  it.each(Array.from({ length: 10 }, (_, seed) => seed))(
    'number %i has the values and gradients of exact shapes',
    async (seed) => {
      setRank({ device: withoutSizes(interpreter()) });
      const expected = await run(seed);
      for (const device of [await cpu(), interpreter()]) {
        setRank({ device });
        const actual = await run(seed);
        actual.forEach((values, i) =>
          values.forEach((value, j) => {
            assertAllclose(value, expected[i]?.[j] ?? new Float32Array(), {
              rtol: 1e-4,
              atol: 1e-5,
            });
          }),
        );
      }
    },
  );
});

describe('a size that is declared to vary', () => {
  beforeEach(async () => setRank({ device: await cpu() }));

  it('makes one plan, in the first run', async () => {
    const plans = await plansOf(async () => {
      for (const length of [40, 17, 100, 128, 3]) {
        const data = fromData(new Float32Array(500 * length).fill(1), [500, length], 'f32');
        const x = dynamic(data, 1, { max: 128 });
        expect(await x.mul(3).sum().item()).toBe(1500 * length);
      }
    });
    expect(plans).toEqual({ all: 1, sized: 1 });
  });

  it('is refused beyond its bound, at the line that declares it', () => {
    expect(() => dynamic(ones([5, 12]).mul(2), 1, { max: 128 })).toThrow(TensorStateError);
    const data = fromData(new Float32Array(129), [129], 'f32');
    expect(() => dynamic(data, 0, { max: 128 })).toThrow(
      'to declare dim 0 of a tensor of shape [129] to be at most 128: it is 129. Declare a larger max, or cut the data',
    );
  });

  it('that memory does not suffice for names the line that declared it', async () => {
    setRank({
      device: await cpu({ memory: new WebAssembly.Memory({ initial: 32, maximum: 32 }) }),
    });
    const x = dynamic(fromData(new Float32Array(40 * 8), [40, 8], 'f32'), 0, { max: 1e6 });
    const sums = x.cumsum(0).sum([1]).data();
    await expect(sums).rejects.toBeInstanceOf(OutOfMemoryError);
    await expect(sums).rejects.toThrow(/sizes up to 1000000 at .*sized-plans\.test\.ts:\d+/);
  });

  it('that nobody declared is planned for without room where memory does not suffice for more', async () => {
    setRank({
      device: await cpu({ memory: new WebAssembly.Memory({ initial: 32, maximum: 32 }) }),
    });
    const plans = await plansOf(async () => {
      for (const length of [16_500, 16_400, 16_450]) {
        const x = fromData(new Float32Array(length * 10).fill(1), [length, 10], 'f32');
        expect(await x.cumsum(0).sum([1]).data()).toHaveLength(length);
      }
    });
    // There is one plan for each of two sizes, one sized plan with room, and one without.
    expect(plans).toEqual({ all: 3, sized: 2 });
    expect(varyingSizes().at(-1)).toMatchObject({ to: 16_500, max: 16_500 });
  });
});

describe('sizes that vary', () => {
  it('can be asked for', async () => {
    setRank({ device: await cpu() });
    for (const length of [40, 17, 30]) await ones([50, length]).add(1).data();
    expect(varyingSizes().at(-1)).toMatchObject({ from: 17, to: 40, max: 64, isDeclared: false });
  });
});

import type { Instruction, Program, Shape } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { kernelText, slotsOf } from '../src/emit/kernel-text.ts';
import { placeTemporaries } from '../src/run/value-memory.ts';
import { buffersOf } from '../src/plan/binding-limit.ts';
import type { KernelPlan } from '../src/plan/kernel-plan.ts';
import { planKernels } from '../src/plan/plan-kernels.ts';
import { leastTraits } from '../src/kernels/device-traits.ts';
import { taskOf } from '../src/plan/task-of.ts';

const f32 = (...shape: number[]) => ({ shape, dtype: 'f32' }) as const;
const unary = (op: 'neg' | 'exp', input: number, shape: Shape): Instruction => ({
  op,
  params: {},
  inputs: [input],
  shape,
  dtype: 'f32',
});
const binary = (op: 'add' | 'mul', a: number, b: number, shape: Shape): Instruction => ({
  op,
  params: {},
  inputs: [a, b],
  shape,
  dtype: 'f32',
});
const matmul = (a: number, b: number, shape: Shape): Instruction => ({
  op: 'matmul',
  params: { transposeA: false, transposeB: false },
  inputs: [a, b],
  shape,
  dtype: 'f32',
});
const plan = (program: Partial<Program>): KernelPlan =>
  planKernels({ inputs: [], instructions: [], outputs: [], updates: [], ...program }, leastTraits);
const labels = ({ kernels }: KernelPlan): string[] => kernels.map(({ label }) => label);

describe('a kernel in messages', () => {
  it('reads and writes the bytes of its values, however much it computes', () => {
    const inputs = [f32(20, 30), f32(30, 40)];
    const { values, kernels } = plan({
      inputs,
      instructions: [matmul(0, 1, [20, 40])],
      outputs: [2],
    });
    const [kernel] = kernels;
    if (kernel === undefined) throw new Error('there is no kernel');
    const byteLength = 4 * (20 * 30 + 30 * 40 + 20 * 40);
    expect(taskOf(values, kernel)).toMatchObject({ shape: [20, 40], byteLength, others: 0 });
  });
});

describe('planKernels', () => {
  it('makes one kernel of a chain of elementwise steps and views', () => {
    const transposed: Instruction = {
      op: 'permute',
      params: { order: [1, 0] },
      inputs: [1],
      ...f32(3, 4),
    };
    const instructions = [unary('exp', 0, [4, 3]), transposed, unary('neg', 2, [3, 4])];
    expect(labels(plan({ inputs: [f32(4, 3)], instructions, outputs: [3] }))).toEqual(['neg']);
  });

  it('joins what reads the same values element by element, and replaces inputs where they lie', () => {
    // p, g, m: m becomes m + g, and p becomes p + m.
    const inputs = [f32(50), f32(50), f32(50)];
    const instructions = [binary('add', 2, 1, [50]), binary('add', 0, 3, [50])];
    const updates = [
      { target: 2, value: 3 },
      { target: 0, value: 4 },
    ];
    const { kernels, inPlace } = plan({ inputs, instructions, updates });
    expect(kernels.map(({ reads, writes }) => ({ reads, writes }))).toEqual([
      { reads: [2, 1, 0], writes: [3, 4] },
    ]);
    expect([...inPlace]).toEqual([
      [3, 2],
      [4, 0],
    ]);
  });

  it('copies an update at the end where another kernel still reads its target', () => {
    const instructions = [unary('neg', 0, [3, 3]), matmul(0, 1, [3, 3])];
    const { kernels } = plan({
      inputs: [f32(3, 3)],
      instructions,
      outputs: [2],
      updates: [{ target: 0, value: 1 }],
    });
    expect(kernels.map(({ label }) => label)).toEqual(['neg', 'matmul', 'update']);
  });

  it('checks indices before all that does not lead to them, and updates nothing before', () => {
    // i becomes i + i, and rows are selected by the new i. A product comes first in the program.
    const i32 = { shape: [3], dtype: 'i32' } as const;
    const rows: Instruction = {
      op: 'indexSelect',
      params: { dim: 0 },
      inputs: [0, 3],
      ...f32(3, 4),
    };
    const instructions: Instruction[] = [
      matmul(0, 0, [4, 4]),
      { op: 'add', params: {}, inputs: [1, 1], ...i32 },
      rows,
    ];
    const { kernels, inPlace } = plan({
      inputs: [f32(4, 4), i32],
      instructions,
      outputs: [2, 4],
      updates: [{ target: 1, value: 3 }],
    });
    expect(kernels.map(({ label }) => label)).toEqual([
      'add',
      'indices of indexSelect',
      'matmul',
      'indexSelect',
      'update',
    ]);
    expect([...inPlace.values()]).toEqual([1]);
    expect(inPlace.has(3)).toBe(false);
  });

  it('gives no kernel more buffers than a device takes, however many values are added', () => {
    const inputs = Array.from({ length: 40 }, () => f32(10));
    const instructions = Array.from({ length: 39 }, (_, i) =>
      binary('add', i === 0 ? 0 : 39 + i, i + 1, [10]),
    );
    const { kernels } = plan({ inputs, instructions, outputs: [78] });
    for (const kernel of kernels) expect(slotsOf(kernel, undefined).length).toBeLessThanOrEqual(8);
    const joined: Instruction = {
      op: 'concat',
      params: { dim: 0 },
      inputs: inputs.map((_, i) => i),
      ...f32(400),
    };
    for (const kernel of plan({ inputs, instructions: [joined], outputs: [40] }).kernels) {
      expect(slotsOf(kernel, undefined).length).toBeLessThanOrEqual(8);
    }
  });

  it('counts numbers of a step as one buffer, and updates that are written elsewhere as buffers of their own', () => {
    // p, g, m, v, and two numbers: m becomes m + g a, v becomes v + g b, and p becomes p + m v.
    const shape = [4, 4];
    const inputs = [...Array.from({ length: 4 }, () => f32(4, 4)), f32(1, 1), f32(1, 1)];
    const expand = (input: number): Instruction => ({
      op: 'expand',
      params: { shape },
      inputs: [input],
      ...f32(4, 4),
    });
    const instructions = [
      expand(4),
      expand(5),
      binary('mul', 1, 6, shape),
      binary('add', 2, 8, shape),
      binary('mul', 1, 7, shape),
      binary('add', 3, 10, shape),
      binary('mul', 9, 11, shape),
      binary('add', 0, 12, shape),
      matmul(0, 13, shape),
      matmul(2, 9, shape),
      matmul(3, 11, shape),
    ];
    const updates = [
      { target: 0, value: 13 },
      { target: 2, value: 9 },
      { target: 3, value: 11 },
    ];
    const traits = { ...leastTraits, mostBuffers: 6 };
    const step = planKernels({ inputs, instructions, outputs: [], updates }, traits);
    expect(step.kernels.map((kernel) => buffersOf(step, kernel))).toEqual([5]);
    // The products read the old parameters and also their new values, so the new values need buffers of their own until
    // the end.
    const read = planKernels({ inputs, instructions, outputs: [14, 15, 16], updates }, traits);
    expect(read.kernels.length).toBeGreaterThan(6);
    for (const kernel of read.kernels) expect(buffersOf(read, kernel)).toBeLessThanOrEqual(6);
  });

  it('has the same text for updates of any size, so that they share a pipeline', () => {
    const textOf = (size: number): string[] => {
      const { values, kernels } = plan({
        inputs: [f32(size), f32(size)],
        instructions: [binary('mul', 0, 1, [size]), binary('add', 2, 0, [size])],
        updates: [{ target: 0, value: 3 }],
      });
      return kernels.map((kernel) =>
        kernelText(values, kernel, { windows: [[0], [1], [0]], windowWords: 0 }, undefined),
      );
    };
    expect(textOf(100)).toEqual(textOf(7));
  });
});

describe('placeTemporaries', () => {
  it('never has two values that are alive at once in the same bytes, and no page beyond its size', () => {
    const steps = fc.array(
      fc.record({ back: fc.nat({ max: 4 }), size: fc.integer({ min: 1, max: 9 }) }),
      {
        minLength: 3,
        maxLength: 12,
      },
    );
    fc.assert(
      fc.property(steps, (random) => {
        // Each product is a kernel of its own.
        const instructions = random.map(({ back }, i) =>
          matmul(i, Math.max(0, i - back), [16, 16]),
        );
        const made = plan({ inputs: [f32(16, 16)], instructions, outputs: [random.length] });
        const { places, pageBytes } = placeTemporaries(made, 2048);
        expect(Math.max(0, ...pageBytes)).toBeLessThanOrEqual(2048);
        const lifeOf = (id: number): [number, number] => {
          const uses = made.kernels.flatMap(({ reads, writes }, at) =>
            reads.includes(id) || writes.includes(id) ? [at] : [],
          );
          return [Math.min(...uses), Math.max(...uses)];
        };
        for (const [a, first] of places) {
          for (const [b, second] of places) {
            if (a >= b || first.page !== second.page) continue;
            const [[startA, endA], [startB, endB]] = [lifeOf(a), lifeOf(b)];
            const isApart = Math.abs(first.byteOffset - second.byteOffset) >= 1024;
            expect(isApart || endA < startB || endB < startA).toBe(true);
          }
        }
      }),
      { numRuns: 30 },
    );
  });
});

describe('epilogues', () => {
  const relu = (input: number, shape: Shape): Instruction => ({
    op: 'relu',
    params: {},
    inputs: [input],
    shape,
    dtype: 'f32',
  });
  const bias: Instruction = { op: 'expand', params: { shape: [6, 7] }, inputs: [2], ...f32(6, 7) };
  const layer = [bias, matmul(0, 1, [6, 7]), binary('add', 4, 3, [6, 7]), relu(5, [6, 7])];
  const inputs = [f32(6, 5), f32(5, 7), f32(1, 7)];

  it('are what one pointwise kernel makes of a product, which then is not in memory', () => {
    const { kernels } = plan({ inputs, instructions: layer, outputs: [6] });
    expect(kernels.map(({ label, writes }) => [label, writes])).toEqual([['matmul relu', [6]]]);
  });

  it('are not of a product that is a result, or that others read', () => {
    expect(labels(plan({ inputs, instructions: layer, outputs: [4, 6] }))).toEqual([
      'matmul',
      'relu',
    ]);
    const twice = [...layer, matmul(4, 6, [6, 6])];
    expect(labels(plan({ inputs, instructions: twice, outputs: [7] }))).toEqual([
      'matmul',
      'relu',
      'matmul',
    ]);
  });

  it('are not updates, which are written where they belong', () => {
    const instructions = [matmul(0, 1, [6, 7]), binary('add', 2, 3, [6, 7])];
    const { kernels, inPlace } = plan({
      inputs: [f32(6, 5), f32(5, 7), f32(6, 7)],
      instructions,
      updates: [{ target: 2, value: 4 }],
    });
    expect(kernels).toHaveLength(2);
    expect([...inPlace]).toEqual([[4, 2]]);
  });
});

describe('results that are reshaped', () => {
  const reshape = (input: number, ...shape: number[]): Instruction => ({
    op: 'reshape',
    params: { shape },
    inputs: [input],
    ...f32(...shape),
  });

  it('are written by the kernel that makes them', () => {
    const instructions = [matmul(0, 0, [4, 4]), reshape(1, 16), reshape(2, 2, 8)];
    const { kernels, outputs } = plan({ inputs: [f32(4, 4)], instructions, outputs: [3] });
    expect(kernels.map(({ label }) => label)).toEqual(['matmul']);
    expect(outputs).toEqual([1]);
  });

  it('are copied where both are results', () => {
    const instructions = [matmul(0, 0, [4, 4]), reshape(1, 16), reshape(1, 2, 8)];
    const { kernels, outputs } = plan({ inputs: [f32(4, 4)], instructions, outputs: [2, 1, 3] });
    expect(kernels.map(({ label }) => label)).toEqual(['matmul', 'reshape reshape']);
    expect(new Set(outputs).size).toBe(3);
  });
});

describe('products of few elements', () => {
  const product = (a: Shape, b: Shape, shape: Shape): KernelPlan => {
    const instructions = [matmul(0, 1, shape), unary('exp', 2, shape)];
    return plan({ inputs: [f32(...a), f32(...b)], instructions, outputs: [3] });
  };
  const written = ({ values, kernels }: KernelPlan) =>
    kernels.map(({ label, writes }) => [label, ...writes.map((id) => values.shape(id))]);

  it('and many terms are made in parts, which their reader adds', () => {
    expect(written(product([60, 2048], [2048, 50], [60, 50]))).toEqual([
      ['matmul', [8, 60, 50]],
      ['exp', [60, 50]],
    ]);
    // 900 terms are too few for four parts of 256 terms. 1,021 is prime, so it cannot be cut at all.
    expect(written(product([60, 900], [900, 50], [60, 50]))[0]).toEqual(['matmul', [3, 60, 50]]);
    expect(written(product([60, 1021], [1021, 50], [60, 50]))).toEqual([['matmul exp', [60, 50]]]);
  });

  it('are computed as sums where one operand is a vector', () => {
    expect(written(product([1, 300], [300, 50], [1, 50]))[0]?.[0]).toBe('sum');
    expect(written(product([60, 300], [300, 1], [60, 1]))[0]?.[0]).toBe('sum');
  });

  it('with few terms, or of many elements, are computed in one part', () => {
    expect(written(product([60, 256], [256, 50], [60, 50]))).toEqual([['matmul exp', [60, 50]]]);
    expect(written(product([600, 2048], [2048, 500], [600, 500]))).toEqual([
      ['matmul exp', [600, 500]],
    ]);
  });
});

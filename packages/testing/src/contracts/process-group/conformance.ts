import type { DType, ReduceOp } from '@shardwise/core/spec';
import type { ConformanceCase, ConformanceCases } from './conformance-case.ts';
import { range, typed, valuesOf, zeros } from './typed-values.ts';
import { reduced } from './specification.ts';

const factorial = (n: number): number => (n <= 1 ? 1 : n * factorial(n - 1));

function allReduceOf(
  op: ReduceOp,
  value: (rank: number) => number,
  expected: (size: number) => number,
  dtype: DType = 'f32',
): ConformanceCase {
  return {
    run: async (group) => {
      const buffer = typed(dtype, [value(group.rank)]);
      await group.allReduce(buffer, op);
      return valuesOf(buffer);
    },
    expected: (_, size) => [expected(size)],
  };
}

function fold(values: readonly number[], op: (a: number, b: number) => number): number {
  return values.reduce(op);
}

const folds = { or: (a: number, b: number) => a | b, xor: (a: number, b: number) => a ^ b };

const triangle = (size: number): number => (size * (size + 1)) / 2;

const ROOTS_DTYPE = 'i32';

/**
 * The conformance cases. They begin with PyTorch's cases for Gloo and NCCL, followed by those that are special to this
 * interface.
 */
export const conformanceCases: ConformanceCases = {
  'allReduce sum of R+1 is W(W+1)/2': allReduceOf('sum', (r) => r + 1, triangle),
  'allReduce product of R+1 is W!': allReduceOf('product', (r) => r + 1, factorial),
  'allReduce min of R+1 is 1': allReduceOf(
    'min',
    (r) => r + 1,
    () => 1,
  ),
  'allReduce max of R+1 is W': allReduceOf(
    'max',
    (r) => r + 1,
    (w) => w,
  ),
  'allReduce avg of R+1 is (W+1)/2': allReduceOf(
    'avg',
    (r) => r + 1,
    (w) => (w + 1) / 2,
  ),
  ...Object.fromEntries(
    range(4).map((bit) => [
      `allReduce and of R|${1 << bit}`,
      allReduceOf(
        'and',
        (r) => r | (1 << bit),
        (w) => fold(range(w), (a, b) => a & b) | (1 << bit),
        'i32',
      ),
    ]),
  ),
  ...Object.fromEntries(
    (['or', 'xor'] as const).flatMap((op) =>
      range(4).map((i) => {
        const share = (count: number, first: number): number =>
          range(count).reduce((bits, j) => folds[op](bits, first + j), 0);
        return [
          `allReduce ${op} of the ${i + 1} numbers from ${i + 1}R on is that of 0 .. ${i + 1}W-1`,
          allReduceOf(
            op,
            (r) => share(i + 1, (i + 1) * r),
            (w) => share((i + 1) * w, 0),
            op === 'or' ? 'i32' : 'i64',
          ),
        ];
      }),
    ),
  ),
  'allReduce premultipliedSum of R+1 by 3': allReduceOf(
    { premultipliedSum: 3 },
    (r) => r + 1,
    (w) => 3 * triangle(w),
  ),
  'allReduce premultipliedSum in f16': allReduceOf(
    { premultipliedSum: 3 },
    (r) => r + 1,
    (w) => 3 * triangle(w),
    'f16',
  ),
  'allReduce premultipliedSum in f64': allReduceOf(
    { premultipliedSum: 5 },
    (r) => r + 1,
    (w) => 5 * triangle(w),
    'f64',
  ),
  'allReduce sum in bf16': allReduceOf('sum', (r) => r + 1, triangle, 'bf16'),
  'allReduce sum in u8': allReduceOf('sum', (r) => r + 1, triangle, 'u8'),
  'allReduce max in bool': allReduceOf(
    'max',
    (r) => (r === 0 ? 1 : 0),
    () => 1,
    'bool',
  ),
  'i32 sums wrap around': allReduceOf(
    'sum',
    () => 2 ** 30,
    (w) => (w * 2 ** 30) | 0,
    'i32',
  ),

  'u8 sums wrap around': allReduceOf(
    'sum',
    () => 100,
    (w) => (100 * w) % 256,
    'u8',
  ),
  'f16 sums beyond 65504 are infinite': allReduceOf(
    'sum',
    () => 40_000,
    (w) => (w === 1 ? 40_000 : Infinity),
    'f16',
  ),
  'i64 sums are exact beyond 2^53': {
    run: async (group) => {
      const values = BigInt64Array.of(2n ** 53n + BigInt(group.rank));
      await group.allReduce({ bytes: new Uint8Array(values.buffer), dtype: 'i64' }, 'sum');
      return String(values[0]);
    },
    expected: (_, w) => String(2n ** 53n * BigInt(w) + BigInt((w * (w - 1)) / 2)),
  },
  'max of NaN and numbers is NaN': allReduceOf(
    'max',
    (r) => (r === 0 ? Number.NaN : r),
    () => Number.NaN,
  ),
  'min of NaN and numbers is NaN': allReduceOf(
    'min',
    (r) => (r === 0 ? Number.NaN : r),
    () => Number.NaN,
    'f64',
  ),
  'the sum of [2R, 2R+1] over all is W(2W-1)': {
    run: async (group) => {
      const buffer = typed('f32', [2 * group.rank, 2 * group.rank + 1]);
      await group.allReduce(buffer, 'sum');
      return fold(valuesOf(buffer), (a, b) => a + b);
    },
    expected: (_, w) => w * (2 * w - 1),
  },

  'two calls at a time, [R+1] and [(R+1)^2]': {
    run: async (group) => {
      const first = typed('f32', [group.rank + 1]);
      const second = typed('f32', [(group.rank + 1) ** 2]);
      await Promise.all([group.allReduce(first, 'sum'), group.allReduce(second, 'sum')]);
      return [...valuesOf(first), ...valuesOf(second)];
    },
    expected: (_, w) => [triangle(w), (w * (w + 1) * (2 * w + 1)) / 6],
  },
  '1000 concurrent all-reduces of i+R are i*W + W(W-1)/2': {
    run: async (group) => {
      const buffers = range(1000).map((i) => typed('f32', [i + group.rank]));
      await Promise.all(buffers.map((buffer) => group.allReduce(buffer, 'sum')));
      return buffers.flatMap(valuesOf);
    },
    expected: (_, w) => range(1000).map((i) => i * w + (w * (w - 1)) / 2),
  },
  'floats are added in rank order': {
    run: async (group) => {
      const buffer = typed('f32', orderSensitive(group.rank));
      await group.allReduce(buffer, 'sum');
      return valuesOf(buffer);
    },
    expected: (_, w) => reduced(range(w).map(orderSensitive), 'f32', 'sum'),
  },
  'f16 is added in f32 and rounded once': {
    run: async (group) => {
      const buffer = typed('f16', [group.rank === 0 ? 2048 : 1]);
      await group.allReduce(buffer, 'sum');
      return valuesOf(buffer);
    },
    expected: (_, w) => [Math.f16round(2048 + w - 1)],
  },
  'allReduce of 300,001 elements': {
    run: async (group) => {
      const buffer = typed(
        'f32',
        range(300_001).map((i) => (i % 1000) + group.rank),
      );
      await group.allReduce(buffer, 'sum');
      const { size: w } = group;
      const isRight = (value: number, i: number): boolean =>
        value === (i % 1000) * w + (w * (w - 1)) / 2;
      return valuesOf(buffer).filter(isRight).length;
    },
    expected: () => 300_001,
  },
  'the group implements this version of the interface': {
    run: async (group) => group.specificationVersion,
    expected: () => 1,
  },
  'broadcast from each root': {
    run: async (group) => {
      const buffers = range(group.size).map(() => typed(ROOTS_DTYPE, [group.rank, -group.rank]));
      await Promise.all(buffers.map((buffer, root) => group.broadcast(buffer, root)));
      return buffers.flatMap(valuesOf);
    },
    expected: (_, w) => range(w).flatMap((root) => [root, 0 - root]),
  },
  'scatter from each root': {
    run: async (group) => {
      const outputs = range(group.size).map(() => zeros(ROOTS_DTYPE, 1));
      for (const [root, output] of outputs.entries()) {
        const parts = range(group.size).map((rank) => 100 * root + rank);
        const input = group.rank === root ? typed(ROOTS_DTYPE, parts) : undefined;
        await group.scatter(input, output, root);
      }
      return outputs.flatMap(valuesOf);
    },
    expected: (rank, w) => range(w).map((root) => 100 * root + rank),
  },
  'gather to each root gives it [0 .. W-1]': {
    run: async (group) => {
      const output = zeros(ROOTS_DTYPE, group.size);
      for (const root of range(group.size)) {
        const mine = group.rank === root ? output : undefined;
        await group.gather(typed(ROOTS_DTYPE, [group.rank]), mine, root);
      }
      return valuesOf(output);
    },
    expected: (_, w) => range(w),
  },
  'reduce leaves the others their values': {
    run: async (group) => {
      const buffer = typed('f32', [group.rank + 1]);
      await group.reduce(buffer, group.size - 1, 'sum');
      return valuesOf(buffer);
    },
    expected: (rank, w) => [rank === w - 1 ? triangle(w) : rank + 1],
  },
  'allGather of [n*R ..] is [0 .. n*W-1]': {
    run: async (group) => {
      const output = zeros('i32', 3 * group.size);
      await group.allGather(
        typed(
          'i32',
          range(3).map((i) => 3 * group.rank + i),
        ),
        output,
      );
      return valuesOf(output);
    },
    expected: (_, w) => range(3 * w),
  },
  'allGather in place: the input is its part of the output': {
    run: async (group) => {
      const output = zeros('i32', group.size);
      const input = {
        dtype: output.dtype,
        bytes: output.bytes.subarray(4 * group.rank, 4 * group.rank + 4),
      };
      input.bytes.set(typed('i32', [group.rank + 1]).bytes);
      await group.allGather(input, output);
      return valuesOf(output);
    },
    expected: (_, w) => range(w).map((rank) => rank + 1),
  },
  'reduceScatter of equal inputs gives W times the own part': {
    run: async (group) => {
      const output = zeros('f64', 2);
      await group.reduceScatter(typed('f64', range(2 * group.size)), output, 'sum');
      return valuesOf(output);
    },
    expected: (rank, w) => [2 * rank * w, (2 * rank + 1) * w],
  },
  'reduce of r+1 elements to each root r: a reduce-scatter of uneven parts': {
    run: async (group) => {
      const parts = range(group.size).map((root) =>
        typed(
          'f32',
          range(root + 1).map((i) => 10 * root + i),
        ),
      );
      await Promise.all(parts.map((part, root) => group.reduce(part, root, 'sum')));
      const own = parts[group.rank];
      return own === undefined ? [] : valuesOf(own);
    },
    expected: (rank, w) => range(rank + 1).map((i) => w * (10 * rank + i)),
  },
  'allToAll of W equal parts': {
    run: async (group) => {
      const output = zeros('i32', group.size);
      await group.allToAll(
        typed(
          'i32',
          range(group.size).map((to) => 10 * group.rank + to),
        ),
        output,
      );
      return valuesOf(output);
    },
    expected: (rank, w) => range(w).map((from) => 10 * from + rank),
  },
  'allToAll with splits i+1': {
    run: async (group) => {
      const { rank, size } = group;
      const inputSplits = range(size).map((to) => to + 1);
      const outputSplits = range(size).map(() => rank + 1);
      const output = zeros('f32', size * (rank + 1));
      const input = typed(
        'f32',
        range(triangle(size)).map(() => rank),
      );
      await group.allToAll(input, output, { inputSplits, outputSplits });
      return valuesOf(output);
    },
    expected: (rank, w) => range(w).flatMap((from) => range(rank + 1).map(() => from)),
  },
  'allToAll where only rank 0 sends': {
    run: async (group) => {
      const { rank, size } = group;
      const inputSplits = range(size).map(() => (rank === 0 ? 2 : 0));
      const outputSplits = range(size).map((from) => (from === 0 ? 2 : 0));
      const output = zeros('i32', 2);
      const input = typed('i32', rank === 0 ? range(2 * size) : []);
      await group.allToAll(input, output, { inputSplits, outputSplits });
      return valuesOf(output);
    },
    expected: (rank) => [2 * rank, 2 * rank + 1],
  },
  'every operation takes empty buffers': {
    run: async (group) => {
      const empty = zeros('f32', 0);
      const rootOnly = group.rank === 0 ? zeros('f32', 0) : undefined;
      await Promise.all([
        group.allReduce(zeros('f32', 0), 'sum'),
        group.allGather(empty, zeros('f32', 0)),
        group.reduceScatter(empty, zeros('f32', 0), 'sum'),
        group.allToAll(empty, zeros('f32', 0)),
        group.broadcast(zeros('f32', 0), 0),
        group.reduce(zeros('f32', 0), 0, 'sum'),
        group.gather(empty, rootOnly, 0),
        group.scatter(rootOnly, zeros('f32', 0), 0),
      ]);
      return 'done';
    },
    expected: () => 'done',
  },
  'buffers may begin at any byte': {
    run: async (group) => {
      const buffer = typed('f64', [group.rank, 1], { byteOffset: 3 });
      await group.allReduce(buffer, 'sum');
      return valuesOf(buffer);
    },
    expected: (_, w) => [(w * (w - 1)) / 2, w],
  },
  'calls may be left pending while the thread computes': {
    run: async (group) => {
      const buffers = range(20).map((i) => typed('f32', [i, group.rank]));
      const pending: Promise<void>[] = [];
      for (const buffer of buffers) {
        pending.push(group.allReduce(buffer, 'sum'));
        compute(1);
        await Promise.resolve();
      }
      await Promise.all(pending);
      return buffers.flatMap(valuesOf);
    },
    expected: (_, w) => range(20).flatMap((i) => [i * w, (w * (w - 1)) / 2]),
  },
};

/**
 * Returns values whose f32 sum depends on the order. A small number is lost if it is added to 1e8 by itself, and not if
 * other numbers were added to it before.
 */
function orderSensitive(rank: number): number[] {
  return [rank === 1 ? 1e8 : 3.3 + rank, rank % 2 === 0 ? 0.1 : -1e7].map(Math.fround);
}

/** Keeps the thread busy for a time. */
function compute(durationMs: number): void {
  const end = performance.now() + durationMs;
  while (performance.now() < end);
}

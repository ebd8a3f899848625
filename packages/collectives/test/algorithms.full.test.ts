import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  allGatherSpecification,
  allReduceSpecification,
  allToAllSpecification,
  broadcastSpecification,
  gatherSpecification,
  reduceScatterSpecification,
  reduceSpecification,
  scatterSpecification,
  type PerRank,
} from '../src/algorithms/specifications.ts';
import type { Operation } from '../src/call/record.ts';
import type { Algorithm } from '../src/group/selection/algorithm.ts';
import { algorithms } from '../src/group/selection/algorithms.ts';
import { ranksByHost } from '../src/group/topology.ts';
import { plainReducer } from '../src/reduce/reducer.ts';
import { SimdReducer } from '../src/reduce/simd-reducer.ts';
import { expectedOf, play, type Run } from './algorithm-run.ts';

/** The algorithms that need no library. The group contract over MPI covers the native ones. */
const all: readonly Algorithm[] = Object.values(algorithms)
  .flat()
  .filter(({ supports }) => supports([[0]], false) || supports([[0, 1], [2]], false));
const add = (a: number, b: number): number => Math.fround(a + b);

// The length is divisible by every size from 1 to 8.
const N = 840;

/** Worlds of 1 to 8 ranks, with the same number of ranks on each host. */
const worlds = [1, 2, 3, 4, 5, 6, 8].flatMap((size) =>
  [1, 2, 3, 4, 6, 8]
    .filter((count) => count <= size && size % count === 0)
    .map((count) => ({ size, count, hosts: contiguous(size, count) })),
);

function contiguous(size: number, count: number): readonly number[] {
  return Array.from({ length: size }, (_, rank) => Math.floor((rank * count) / size));
}

function runOf(algorithm: Algorithm, hosts: readonly number[], root: number): Run {
  const size = hosts.length;
  const splits = hosts.map(() => hosts.map(() => N / size));
  // Sevenths fill the mantissa, so the result shows the order of additions.
  const valueAt = (rank: number, index: number): number => (100 * rank + index) / 7;
  const options = { dtype: 'f32', op: 'sum', elements: N, root, splits, valueAt } as const;
  return { algorithm, hosts, ...options };
}

const specifications: Record<
  Exclude<Operation, 'split' | 'barrier'>,
  (inputs: PerRank, root: number) => PerRank
> = {
  allReduce: (inputs) => allReduceSpecification(inputs, add),
  reduceScatter: (inputs) => reduceScatterSpecification(inputs, add),
  reduce: (inputs, root) => reduceSpecification(inputs, root, add),
  allGather: allGatherSpecification,
  broadcast: broadcastSpecification,
  gather: gatherSpecification,
  scatter: (inputs, root) =>
    scatterSpecification(inputs, root).map((row) => (row.length === 0 ? [] : row)),
  allToAll: (inputs) =>
    allToAllSpecification(
      inputs,
      inputs.map(() => inputs.map(() => N / inputs.length)),
    ),
};

const numbers = (bytes: Uint8Array): number[] => [...new Float32Array(bytes.slice().buffer)];

describe.each(all)('$operation $name', (algorithm) => {
  const supported = worlds.filter(({ hosts }) => algorithm.supports(ranksByHost(hosts), false));

  it.each(supported)(
    'takes the rounds and bytes of its cost: $size ranks on $count hosts',
    async ({ size, count, hosts }) => {
      // The cost is that of the rank that sends most.
      const { traffic } = await play(runOf(algorithm, hosts, 0), plainReducer);
      const { cost } = algorithm;
      const bytes = algorithm.operation === 'barrier' ? 0 : 4 * N;
      const betweenHosts = ranksByHost(hosts).map((ranks) =>
        ranks
          .flatMap((rank) => traffic[rank]!.bytesTo.filter((_, to) => hosts[to] !== hosts[rank]))
          .reduce((a, b) => a + b, 0),
      );
      expect(Math.max(...traffic.map(({ rounds }) => rounds))).toBe(cost.rounds(size, count));
      expect(Math.max(...traffic.map((sent) => sent.bytes))).toBe(
        cost.bytesPerRank(size, bytes, count),
      );
      if (cost.bytesPerHost !== undefined) {
        expect(Math.max(...betweenHosts)).toBe(cost.bytesPerHost(size, bytes, count));
      }
    },
  );

  const { operation } = algorithm;
  if (operation === 'split' || operation === 'barrier') return;
  it.each(supported)(
    'gives what its specification says: $size ranks on $count hosts',
    async ({ size, hosts }) => {
      const root = size - 1;
      const { inputs, outputs } = await play(runOf(algorithm, hosts, root), plainReducer);
      const expected = specifications[operation](inputs.map(numbers), root);
      for (const [rank, output] of outputs.entries()) {
        const values = numbers(output);
        if (algorithm.rankOrder) expect(values).toEqual(expected[rank]);
        else expect(maxDifference(values, expected[rank]!)).toBeLessThan(1e-3);
      }
    },
  );
});

function maxDifference(a: readonly number[], b: readonly number[]): number {
  return Math.max(0, ...a.map((value, index) => Math.abs(value - (b[index] ?? Number.NaN))));
}

const floatOps: readonly ReduceOp[] = [
  'sum',
  'avg',
  'product',
  'min',
  'max',
  { premultipliedSum: 0.3 },
];
const opsOf: Record<DType, readonly ReduceOp[]> = {
  f64: floatOps,
  f32: floatOps,
  f16: floatOps,
  bf16: floatOps,
  i64: ['sum', 'product', 'min', 'max', 'and', 'or', 'xor'],
  i32: ['sum', 'product', 'min', 'max', 'and', 'or', 'xor'],
  u8: ['sum', 'product', 'min', 'max', 'and', 'or', 'xor'],
  bool: ['min', 'max', 'and', 'or', 'xor'],
};
const dtypeNames = Object.keys(dtypes).filter((name): name is DType => name in dtypes);

/**
 * Random assignments of ranks to hosts. Hosts have any sizes and numbers, and their ranks may or may not be contiguous.
 */
const layout = fc.integer({ min: 1, max: 8 }).chain((size) =>
  fc.oneof(
    fc.array(fc.integer({ min: 0, max: 2 }), { minLength: size, maxLength: size }),
    fc
      .array(fc.boolean(), { minLength: size, maxLength: size })
      .map((begins) =>
        begins.map((_, rank) => 9 - begins.slice(1, rank + 1).filter(Boolean).length),
      ),
  ),
);

const randomRun = (algorithm: Algorithm): fc.Arbitrary<Run> =>
  fc
    .record({ hosts: layout, dtype: fc.constantFrom(...dtypeNames) })
    .filter(({ hosts }) => algorithm.supports(ranksByHost(hosts), false))
    .chain(({ hosts, dtype }) =>
      fc.record({
        algorithm: fc.constant(algorithm),
        hosts: fc.constant(hosts),
        dtype: fc.constant(dtype),
        op: fc.constantFrom(...opsOf[dtype]),
        elements: fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 1000 })),
        root: fc.integer({ min: 0, max: hosts.length - 1 }),
        splits: fc.array(
          fc.array(fc.integer({ min: 0, max: 9 }), {
            minLength: hosts.length,
            maxLength: hosts.length,
          }),
          { minLength: hosts.length, maxLength: hosts.length },
        ),
        valueAt: fc.nat(1e6).map((seed) => (rank: number, index: number) => {
          const bits = Math.imul(seed ^ Math.imul(rank + 1, 0x9e3779b1) ^ index, 0x85ebca6b);
          const small = ((bits ^ (bits >>> 15)) >>> 0) % 200;
          // Short floats get values of few bits. f32 and f64 get thirds, which have many bits.
          return dtype === 'f32' || dtype === 'f64' ? (small - 100) / 3 : small;
        }),
      }),
    );

describe.each(all.filter(({ operation }) => operation !== 'split'))(
  'any call of $operation $name',
  (algorithm) => {
    it.each([
      { name: 'plain', reducer: plainReducer },
      { name: 'simd', reducer: new SimdReducer() },
    ])('gives every rank its result, with the $name reducer', async ({ reducer }) => {
      await fc.assert(
        fc.asyncProperty(randomRun(algorithm), async (run) => {
          const { inputs, outputs } = await play(run, reducer);
          const expected = expectedOf(run, inputs);
          const isFloat = dtypes[run.dtype].kind === 'float';
          const isExact = algorithm.rankOrder || !isFloat || run.op === 'min' || run.op === 'max';
          if (isExact) {
            for (const [rank, output] of outputs.entries()) {
              expect(Buffer.compare(output, expected[rank]!), `rank ${rank}`).toBe(0);
            }
          } else {
            expectClose(run, outputs, expected);
          }
        }),
        { numRuns: 60 },
      );
    });
  },
);

describe('allToAll between two hosts of four ranks', () => {
  const hosts = contiguous(8, 2);
  const splits = hosts.map((_, from) => hosts.map((__, to) => ((from * 5 + to * 3) % 7) + 1));
  const crossing = async (
    algorithm: Algorithm,
  ): Promise<{
    outputs: readonly Uint8Array[];
    bytes: number;
    pairs: number;
    messages: number;
  }> => {
    const run = { ...runOf(algorithm, hosts, 0), splits };
    const { outputs, traffic } = await play(run, plainReducer);
    const sent = traffic.flatMap(({ bytesTo }, rank) =>
      bytesTo.filter((_, to) => hosts[to] !== hosts[rank]),
    );
    return {
      outputs,
      bytes: sent.reduce((a, b) => a + b, 0),
      pairs: sent.filter((bytes) => bytes > 0).length,
      messages: traffic.reduce((sum, { messages }) => sum + messages, 0),
    };
  };

  it('sends a message for each receiver instead of each pair of ranks, as many bytes, and the same bits', async () => {
    const [pairwise, hierarchical] = await Promise.all(algorithms.allToAll.map(crossing));
    expect(pairwise?.pairs).toBe(2 * 4 * 4);
    expect(hierarchical?.pairs).toBe(2 * 4);
    // Each rank sends three messages to each of its three neighbours, one of them with lengths, and one message to
    // another host.
    expect(hierarchical?.messages).toBe(8 * (3 * 3 + 1));
    expect(hierarchical?.bytes).toBe(pairwise?.bytes);
    expect(hierarchical?.outputs).toEqual(pairwise?.outputs);
  });
});

const inFragments: readonly Operation[] = [
  'allReduce',
  'reduceScatter',
  'reduce',
  'allGather',
  'broadcast',
];

describe.each(all.filter(({ operation }) => inFragments.includes(operation)))(
  'a long call of $operation $name',
  (algorithm) => {
    it('gives every rank its result, in fragments', async () => {
      // The message has 2.4 MB in f32 and 1.2 MB in bf16. That is more than one fragment of 1 MiB, and the last
      // fragments are not full.
      const elements = 600_001;
      const hosts = [0, 0, 1];
      const valueAt = (rank: number, index: number): number => (rank + 1) * (index % 32);
      const call = { algorithm, hosts, op: 'sum', elements, root: 1, splits: [], valueAt } as const;
      const reduces = algorithm.operation.startsWith('reduce') || !algorithm.rankOrder;
      const run: Run = { ...call, dtype: reduces ? 'bf16' : 'f32' };
      const { inputs, outputs } = await play(run, new SimdReducer());
      for (const [rank, expected] of expectedOf(run, inputs).entries()) {
        // Small integers are added exactly in any order.
        expect(Buffer.compare(outputs[rank]!, expected), `rank ${rank}`).toBe(0);
      }
    });
  },
);

/** Expects nearly the expected values. After an all-reduce, all ranks must have the same bits. */
function expectClose(
  { algorithm, dtype }: Run,
  outputs: readonly Uint8Array[],
  expected: readonly Uint8Array[],
): void {
  for (const [rank, output] of outputs.entries()) {
    if (algorithm.operation === 'allReduce') {
      expect(Buffer.compare(output, outputs[0]!), `rank ${rank}`).toBe(0);
    }
    if (dtype !== 'f32' && dtype !== 'f64') continue;
    const decode = (bytes: Uint8Array): number[] =>
      dtype === 'f32' ? numbers(bytes) : [...new Float64Array(bytes.slice().buffer)];
    const values = decode(output);
    for (const [index, value] of decode(expected[rank]!).entries()) {
      // A sum that nearly cancels loses some digits of its terms.
      expect(Math.abs((values[index] ?? Number.NaN) - value)).toBeLessThanOrEqual(
        1e-5 * Math.abs(value) + 1e-3,
      );
    }
  }
}

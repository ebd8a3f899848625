import { dtypeNames, dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import type { RandomCall, RandomOperation } from './random-call.ts';

/** Makes random calls for a group of `size` ranks. Lengths are small, odd, empty, and beyond 64 KiB. */
export function randomCalls(size: number, count: number, seed: number): readonly RandomCall[] {
  return fc.sample(randomCall(size), { numRuns: count, seed });
}

/** Checks random calls on worlds of 1 to 8 ranks. What `check` rejects is reduced to the fewest ranks and calls. */
export async function randomWorlds(
  options: { readonly numRuns: number; readonly seed: number },
  check: (world: { readonly size: number; readonly calls: readonly RandomCall[] }) => Promise<void>,
): Promise<void> {
  const world = fc
    .integer({ min: 1, max: 8 })
    .chain((size) =>
      fc.array(randomCall(size), { minLength: 1, maxLength: 4 }).map((calls) => ({ size, calls })),
    );
  await fc.assert(fc.asyncProperty(world, check), options);
}

/**
 * Makes a call for each reduction of each dtype in each reducing operation, and for each dtype in each operation that
 * only moves values. Every other call works in place.
 */
export function everyCall(size: number): readonly RandomCall[] {
  const kinds = dtypeNames.flatMap((dtype) => [
    ...reducing.flatMap((operation) =>
      reductions[dtypes[dtype].kind].map((op) => ({ operation, dtype, op })),
    ),
    ...moving.map((operation) => ({ operation, dtype, op: 'sum' as const })),
  ]);
  return kinds.map((kind, index) => ({
    ...kind,
    elements: 5,
    root: index % size,
    splits: Array.from({ length: size }, (_, from) =>
      Array.from({ length: size }, (_, to) => (from + 2 * to + index) % 3),
    ),
    byteOffset: 0,
    inPlace: index % 2 === 0,
    seed: index,
  }));
}

const reducing: readonly RandomOperation[] = ['allReduce', 'reduce', 'reduceScatter'];
const moving: readonly RandomOperation[] = [
  'allGather',
  'allToAll',
  'broadcast',
  'gather',
  'scatter',
];

function randomCall(size: number): fc.Arbitrary<RandomCall> {
  const operation = fc.constantFrom(...reducing, ...moving);
  const elements = fc.oneof(
    { weight: 8, arbitrary: fc.integer({ min: 0, max: 40 }) },
    { weight: 4, arbitrary: fc.integer({ min: 100, max: 3000 }) },
    { weight: 1, arbitrary: fc.integer({ min: 70_000, max: 70_100 }) },
  );
  const row = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: size, maxLength: size });
  return fc
    .record({
      operation,
      dtype: fc.constantFrom(...dtypeNames),
      elements,
      root: fc.integer({ min: 0, max: size - 1 }),
      splits: fc.array(row, { minLength: size, maxLength: size }),
      byteOffset: fc.constantFrom(0, 0, 1, 8),
      inPlace: fc.boolean(),
      seed: fc.integer(),
    })
    .chain((call) =>
      fc.constantFrom(...reductions[dtypes[call.dtype].kind]).map((op) => ({ ...call, op })),
    );
}

const reductions: Record<(typeof dtypes)[DType]['kind'], readonly ReduceOp[]> = {
  float: [
    'sum',
    'avg',
    'product',
    'min',
    'max',
    { premultipliedSum: 3 },
    { premultipliedSum: 1 / 3 },
  ],
  int: ['sum', 'product', 'min', 'max', 'and', 'or', 'xor'],
  bool: ['min', 'max', 'and', 'or', 'xor'],
};

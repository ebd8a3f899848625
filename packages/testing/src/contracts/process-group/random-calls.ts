import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import type { RandomCall, RandomOperation } from './random-call.ts';

/** Calls for a group of `size`; lengths are small, odd, empty, and beyond 64 KiB. */
export function randomCalls(size: number, count: number, seed: number): readonly RandomCall[] {
  return fc.sample(randomCall(size), { numRuns: count, seed });
}

function randomCall(size: number): fc.Arbitrary<RandomCall> {
  const operation = fc.constantFrom<RandomOperation>(
    'allReduce',
    'allGather',
    'reduceScatter',
    'allToAll',
    'broadcast',
    'reduce',
    'gather',
    'scatter',
  );
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
      seed: fc.integer(),
    })
    .chain((call) => opsOf[dtypes[call.dtype].kind].map((op) => ({ ...call, op })));
}

const dtypeNames = Object.keys(dtypes).filter((name): name is DType => name in dtypes);

const opsOf = {
  float: fc.oneof(
    fc.constantFrom<ReduceOp>('sum', 'avg', 'product', 'min', 'max'),
    fc.constantFrom(0.5, 3, 1 / 3).map((factor) => ({ premultipliedSum: factor })),
  ),
  int: fc.constantFrom<ReduceOp>('sum', 'product', 'min', 'max', 'and', 'or', 'xor'),
  bool: fc.constantFrom<ReduceOp>('min', 'max', 'and', 'or', 'xor'),
} satisfies Record<string, fc.Arbitrary<ReduceOp>>;

import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromBfloat16, toBfloat16 } from '../src/reduce/element-blocks.ts';
import {
  foldElements,
  partialDTypes,
  reduceElements,
  type Fold,
} from '../src/reduce/reduce-elements.ts';
import { SimdReducer } from '../src/reduce/simd-reducer.ts';
import { SharedMemory } from '../src/shared-memory/shared-memory.ts';

const memory = new WebAssembly.Memory({ initial: 16, maximum: 16, shared: true });
const shared = new SharedMemory(memory, 0, { byteOffset: 1024, byteLength: 1024 });
const FIRST_BYTE = 4096;
const STRIDE_BYTES = 8192;

const kernelDTypes = ['f32', 'f64', 'i32'] as const satisfies readonly DType[];
const floatOps: readonly ReduceOp[] = [
  'sum',
  'avg',
  'product',
  'min',
  'max',
  { premultipliedSum: 1 / 3 },
];
const intOps: readonly ReduceOp[] = ['sum', 'product', 'min', 'max'];

function valuesFor(dtype: DType, count: number, seed: number): Uint8Array {
  const value = (i: number): number => Math.sin(seed * 1000 + i) * 1e3;
  const make = (_: unknown, i: number): number => value(i);
  if (dtype === 'i32') {
    return new Uint8Array(Int32Array.from({ length: count }, (_, i) => value(i) * 1e6).buffer);
  }
  const values =
    dtype === 'f64'
      ? Float64Array.from({ length: count }, make)
      : Float32Array.from({ length: count }, make);
  return new Uint8Array(values.buffer);
}

describe('the WebAssembly kernels', () => {
  it('give the bits of the loops in JavaScript', () => {
    const call = fc.constantFrom(...kernelDTypes).chain((dtype) =>
      fc.record({
        dtype: fc.constant(dtype),
        op: fc.constantFrom(...(dtype === 'i32' ? intOps : floatOps)),
        sources: fc.integer({ min: 1, max: 5 }),
        destinations: fc.integer({ min: 1, max: 5 }),
        // The lengths lie around the block of 128 bytes.
        elements: fc.integer({ min: 0, max: 100 }),
        seed: fc.nat(1000),
      }),
    );
    fc.assert(
      fc.property(call, ({ dtype, op, sources, destinations, elements, seed }) => {
        const inputs = Array.from({ length: sources }, (_, i) =>
          valuesFor(dtype, elements, seed + i),
        );
        const byteLength = inputs[0]!.byteLength;
        const expected = new Uint8Array(byteLength);
        reduceElements(inputs, [expected], dtype, op);
        const from = inputs.map((_, i) => FIRST_BYTE + i * STRIDE_BYTES);
        // The first destinations are the sources themselves, as in an all-reduce.
        const to = Array.from({ length: destinations }, (_, i) => FIRST_BYTE + i * STRIDE_BYTES);
        for (const [i, input] of inputs.entries()) shared.bytes.set(input, from[i]);
        for (const address of to) shared.bytes[address + byteLength] = 77;
        shared.reduce(from, to, byteLength, dtype, op);
        for (const address of to) {
          expect(shared.bytes.slice(address, address + byteLength)).toEqual(expected);
          expect(shared.bytes[address + byteLength]).toBe(77);
        }
      }),
      { numRuns: 300 },
    );
  });

  it.each(['min', 'max'] as const)(
    '%s keeps NaN and orders the zeros, as JavaScript does',
    (op) => {
      const inputs = [
        [Number.NaN, 0, -0, 1, -1],
        [1, -0, 0, Number.NaN, Number.NEGATIVE_INFINITY],
      ].map((values) => new Uint8Array(Float32Array.from(values).buffer));
      for (const [i, input] of inputs.entries())
        shared.bytes.set(input, FIRST_BYTE + i * STRIDE_BYTES);
      shared.reduce([FIRST_BYTE, FIRST_BYTE + STRIDE_BYTES], [FIRST_BYTE], 20, 'f32', op);
      const pick = op === 'min' ? Math.min : Math.max;
      const expected = [
        pick(Number.NaN, 1),
        pick(0, -0),
        pick(-0, 0),
        Number.NaN,
        pick(-1, -Infinity),
      ];
      expect([...new Float32Array(shared.bytes.slice(FIRST_BYTE, FIRST_BYTE + 20).buffer)]).toEqual(
        expected,
      );
    },
  );

  it('reduce into memory elsewhere, in pieces', () => {
    const count = 1000;
    const inputs = [1, 2].map((seed) => valuesFor('f32', count, seed));
    const expected = new Uint8Array(4 * count);
    reduceElements(inputs, [expected], 'f32', 'sum');
    for (const [i, input] of inputs.entries())
      shared.bytes.set(input, FIRST_BYTE + i * STRIDE_BYTES);
    const output = new Uint8Array(4 * count + 16).fill(77);
    const sources = [FIRST_BYTE, FIRST_BYTE + STRIDE_BYTES];
    shared.reduceOut(sources, output, 8, 8 + 4 * count, 'f32', 'sum');
    const untouched = new Uint8Array(8).fill(77);
    expect([...output]).toEqual([...untouched, ...expected, ...untouched]);
  });
});

describe('a reduction in steps', () => {
  const floats = ['f32', 'f64', 'f16', 'bf16'] as const satisfies readonly DType[];
  const run = fc.record({
    dtype: fc.constantFrom(...floats),
    op: fc.constantFrom(...floatOps),
    // The number of sources that each step adds. The last steps may add none.
    steps: fc.tuple(fc.integer({ min: 1, max: 3 }), fc.nat(3), fc.nat(3)),
    elements: fc.integer({ min: 0, max: 300 }),
    seed: fc.nat(1000),
    start: fc.nat(1),
  });

  it.each([
    { name: 'loops', fold: foldElementsInto },
    { name: 'kernels', fold: foldBy(new SimdReducer()) },
  ])('has the bits of one in one step, with $name', ({ fold }) => {
    fc.assert(
      fc.property(run, ({ dtype, op, steps, elements, seed, start }) => {
        const total = steps.reduce((a, b) => a + b, 0);
        const byteLength = elements * dtypes[dtype].bytes;
        const sources = Array.from({ length: total }, (_, rank) => {
          const values = new Uint8Array(byteLength + start);
          for (let i = start; i < values.length; i++) values[i] = (seed * (rank + 3) + 7 * i) % 60;
          return values.subarray(start);
        });
        const expected = new Uint8Array(byteLength);
        reduceElements(sources, [expected], dtype, op);
        const partialBytes = elements * dtypes[partialDTypes[dtype]].bytes;
        let partial: Uint8Array | undefined;
        let used = 0;
        for (const [index, count] of steps.entries()) {
          const isLast = index === steps.length - 1;
          const into = new Uint8Array(isLast ? byteLength : partialBytes);
          const own = sources.slice(used, used + count);
          fold({ partial, sources: own, dtype, op, total: isLast ? total : undefined }, into);
          partial = into;
          used += count;
        }
        expect(partial).toEqual(expected);
      }),
      { numRuns: 200 },
    );
  });
});

function foldElementsInto(step: Fold, into: Uint8Array): void {
  foldElements(step, [into]);
}

function foldBy(reducer: SimdReducer): (step: Fold, into: Uint8Array) => void {
  return (step, into) => reducer.fold(step, into);
}

describe('bf16', () => {
  it('is the upper half of an f32', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0xffff }), (bits) => {
        const value = fromBfloat16(bits);
        if (!Number.isNaN(value)) expect(toBfloat16(value)).toBe(bits);
        else expect(Number.isNaN(fromBfloat16(toBfloat16(value)))).toBe(true);
      }),
    );
  });

  it('rounds to the nearest, and ties to even', () => {
    const ulp = 2 ** -7;
    expect(fromBfloat16(toBfloat16(1 + ulp / 2))).toBe(1);
    expect(fromBfloat16(toBfloat16(1 + (3 * ulp) / 2))).toBe(1 + 2 * ulp);
    expect(fromBfloat16(toBfloat16(1 + ulp * 0.51))).toBe(1 + ulp);
    expect(fromBfloat16(toBfloat16(3.4e38))).toBe(Infinity);
  });
});

import type { Backend, Instruction, Program } from '@shardwise/core/spec';
import { interpreter } from '@shardwise/testing';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cpu } from '../src/cpu.ts';
import { wasm } from '../src/wasm-backend.ts';
import { binary, bytesOf, constant, f32, programOf, unary } from './support.ts';

/** The matrices are large enough for fused kernels of their own. */
const side = 66;
const elements = side * side;
const type = f32(side, side);
const inputCount = 3;

type Operation = (a: number, b: number, next: number) => Instruction[];

/**
 * Each operation takes two matrices and appends instructions. The last one computes its result, which is a matrix too.
 */
const operations: Readonly<Record<string, Operation>> = {
  add: (a, b) => [binary('add', a, b, type)],
  sub: (a, b) => [binary('sub', a, b, type)],
  half: (a, _, next) => [constant(0.5, type), binary('mul', a, next, type)],
  neg: (a) => [unary('neg', a, type)],
  // The product reads views where they lie in memory, and a constant that has no place before the product.
  product: (a, b, next) => [
    {
      op: 'slice',
      params: { starts: [0, 3], stops: [side, 4], steps: [1, 1] },
      inputs: [a],
      ...f32(side, 1),
    },
    { op: 'expand', params: type, inputs: [next], ...type },
    constant(1 / 64, type),
    binary('mul', b, next + 2, type),
    {
      op: 'matmul',
      params: { transposeA: false, transposeB: true },
      inputs: [next + 1, next + 3],
      ...type,
    },
  ],
  sums: (a, _, next) => [
    constant(1 / side, type),
    { op: 'matmul', params: { transposeA: true, transposeB: false }, inputs: [a, next], ...type },
  ],
  // This runs in ONNX Runtime or in JavaScript loops.
  sine: (a) => [unary('sin', a, type)],
  repeated: (a, b, next) => [
    { op: 'reshape', params: { shape: [6, 11, 66] }, inputs: [a], ...f32(6, 11, 66) },
    {
      op: 'slice',
      params: { starts: [0, 2, 0], stops: [6, 3, 66], steps: [1, 1, 1] },
      inputs: [next],
      ...f32(6, 1, 66),
    },
    { op: 'expand', params: { shape: [6, 11, 66] }, inputs: [next + 1], ...f32(6, 11, 66) },
    { op: 'reshape', params: { shape: [side, side] }, inputs: [next + 2], ...type },
    unary('sin', next + 3, type),
    binary('add', next + 4, b, type),
  ],
  transpose: (a) => [{ op: 'permute', params: { order: [1, 0] }, inputs: [a], ...type }],
  // This has a kernel of its own.
  cumsum: (a) => [{ op: 'cumsum', params: { dim: 0, reverse: false }, inputs: [a], ...type }],
  // These are lazy steps around a reduction.
  rowMax: (a, b, next) => [
    { op: 'max', params: { dims: [1] }, inputs: [a], ...f32(side) },
    { op: 'reshape', params: { shape: [side, 1] }, inputs: [next], ...f32(side, 1) },
    { op: 'expand', params: type, inputs: [next + 1], ...type },
    binary('sub', b, next + 2, type),
  ],
  columnMax: (a, b, next) => [
    { op: 'max', params: { dims: [0] }, inputs: [a], ...f32(side) },
    { op: 'reshape', params: { shape: [1, side] }, inputs: [next], ...f32(1, side) },
    { op: 'expand', params: type, inputs: [next + 1], ...type },
    binary('sub', b, next + 2, type),
  ],
  flatten: (a, b, next) => [
    { op: 'reshape', params: { shape: [elements] }, inputs: [a], ...f32(elements) },
    unary('neg', next, f32(elements)),
    { op: 'reshape', params: { shape: type.shape }, inputs: [next + 1], ...type },
    binary('add', next + 2, b, type),
  ],
};

const choices = fc.array(
  fc.record({
    operation: fc.constantFrom(...Object.values(operations)),
    a: fc.nat(),
    b: fc.nat(),
    isOutput: fc.boolean(),
  }),
  { minLength: 1, maxLength: 12 },
);

const programs: fc.Arbitrary<Program> = fc
  .tuple(choices, fc.array(fc.nat(), { maxLength: inputCount }), fc.subarray([0, 1, 2]))
  .map(([steps, updateValues, inputOutputs]) => {
    const instructions: Instruction[] = [];
    const matrices = [0, 1, 2];
    const outputs = [...inputOutputs];
    const pick = (n: number): number => matrices[n % matrices.length] ?? 0;
    for (const { operation, a, b, isOutput } of steps) {
      const next = inputCount + instructions.length;
      instructions.push(...operation(pick(a), pick(b), next));
      const result = inputCount + instructions.length - 1;
      matrices.push(result);
      if (isOutput) outputs.push(result);
    }
    const results = matrices.slice(inputCount);
    const updates = updateValues.flatMap((n, target) => {
      const value = results[n % results.length];
      return value === undefined ? [] : [{ target, value }];
    });
    return programOf({ inputs: [type, type, type], instructions, outputs, updates });
  });

/** Returns the outputs, followed by the inputs as the run left them. The initial inputs are multiplied by `factor`. */
async function run(backend: Backend, program: Program, factor = 1): Promise<Float32Array[]> {
  const executable = await backend.compile(program);
  const inputs = program.inputs.map((_, input) => {
    const buffer = backend.alloc(elements * 4);
    const values = Array.from(
      { length: elements },
      (_, i) => factor * (((i * (7 + input)) % 41) / 8 - 2),
    );
    backend.write(buffer, bytesOf(values));
    return buffer;
  });
  const outputs = program.outputs.map((id) => {
    const { shape } = program.instructions[id - inputCount] ?? type;
    return backend.alloc(shape.reduce((product, size) => product * size, 4));
  });
  await executable.run(inputs, outputs);
  const buffers = [...outputs, ...inputs];
  const results = await Promise.all(buffers.map((buffer) => backend.read(buffer)));
  executable.dispose();
  for (const buffer of buffers) backend.free(buffer);
  await backend.sync();
  return results.map((bytes) => new Float32Array(bytes.buffer, bytes.byteOffset, elements));
}

/** The largest difference of results, relative to the largest one. */
const tolerance = 1e-5;

function largestDifference(a: Float32Array, b: Float32Array): number {
  const scale = a.reduce((largest, value) => Math.max(largest, Math.abs(value)), 1);
  return (
    a.reduce((largest, value, i) => Math.max(largest, Math.abs(value - (b[i] ?? NaN))), 0) / scale
  );
}

describe('random programs of kernels, sessions, lazy steps and updates', () => {
  it.each([
    ['cpu', cpu],
    ['wasm', wasm],
  ] as const)('leave the same memory behind on %s as in the interpreter', async (_, create) => {
    const backend = await create();
    await fc.assert(
      fc.asyncProperty(programs, async (program) => {
        const actual = await run(backend, program);
        const expected = await run(interpreter(), program);
        for (const [index, values] of actual.entries()) {
          const wanted = expected[index] ?? new Float32Array();
          const difference = largestDifference(values, wanted);
          if (difference < tolerance) continue;
          // The sine of a large number amplifies rounding errors. The bound is what a small relative change of the
          // inputs does.
          const rounded = await run(interpreter(), program, 1 + 2 ** -20);
          const sensitivity = largestDifference(rounded[index] ?? new Float32Array(), wanted);
          expect(difference, `result ${index}`).toBeLessThan(Math.max(tolerance, 4 * sensitivity));
        }
        expect(backend.usage().bytesInUse).toBe(0);
      }),
      { numRuns: 60 },
    );
  });
});

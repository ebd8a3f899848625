import type { Backend, Program } from '@shardwise/core/spec';
import { interpreter } from '@shardwise/testing';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cpu } from '../src/cpu.ts';
import { wasm } from '../src/wasm-backend.ts';
import { elements, inputCount, operations, randomPrograms, type } from './random-programs.ts';
import { bytesOf } from './support.ts';

const programs = randomPrograms(operations);

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

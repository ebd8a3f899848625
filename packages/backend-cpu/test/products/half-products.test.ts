import type { Instruction, Program, ValueType } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { cpu } from '../../src/cpu.ts';
import { analyse } from '../../src/plan/analyse.ts';
import { onnxFallback } from '../../src/engines/onnx/onnx-fallback.ts';
import { Sessions } from '../../src/engines/onnx/sessions.ts';
import { simplify } from '../../src/plan/simplify/simplify.ts';
import { binary, constant, f32, matmul, programOf } from '../support.ts';
import { fromBf16, machine, toBf16 } from './support.ts';

const sessions = onnxFallback(new Sessions(1));

const bf16 = (...shape: number[]): ValueType => ({ shape, dtype: 'bf16' });
const cast = (input: number, { shape, dtype }: ValueType): Instruction => ({
  op: 'cast',
  params: { dtype },
  inputs: [input],
  shape,
  dtype,
});
const expand = (input: number, { shape, dtype }: ValueType): Instruction => ({
  op: 'expand',
  params: { shape },
  inputs: [input],
  shape,
  dtype,
});
const elements = (shape: readonly number[]): number => shape.reduce((all, size) => all * size, 1);
const numbers = (count: number, seed: number): Float32Array<ArrayBuffer> =>
  Float32Array.from({ length: count }, (_, index) => Math.sin(seed + index * 1.7));

/** Runs a program on bf16 inputs and returns its outputs as f32. */
async function results(program: Program, products: 'own' | 'onnxruntime'): Promise<number[][]> {
  const backend = await cpu({ products });
  const executable = await backend.compile(program);
  const inputs = program.inputs.map(({ shape }, index) => {
    const values = toBf16(numbers(elements(shape), index));
    const buffer = backend.alloc(values.byteLength);
    backend.write(buffer, new Uint8Array(values.buffer));
    return buffer;
  });
  const types = [...program.inputs, ...program.instructions];
  const outputs = program.outputs.map((id) => {
    const { shape = [], dtype = 'f32' } = types[id] ?? {};
    return backend.alloc(elements(shape) * (dtype === 'bf16' ? 2 : 4));
  });
  await executable.run(inputs, outputs);
  return Promise.all(
    outputs.map(async (buffer, index) => {
      const bytes = await backend.read(buffer);
      const isNarrow = types[program.outputs[index] ?? -1]?.dtype === 'bf16';
      const of = (bytesOf: number): [ArrayBuffer, number, number] => [
        bytes.slice().buffer,
        0,
        bytes.byteLength / bytesOf,
      ];
      return [...(isNarrow ? fromBf16(new Uint16Array(...of(2))) : new Float32Array(...of(4)))];
    }),
  );
}

const [M, K, N] = [33, 45, 50];
const result = f32(M, N);

/** Programs in which values 2 and 3 are inputs 0 and 1, converted to f32. */
const programs: Readonly<Record<string, Program>> = {
  'with sums in f32': programOf({
    inputs: [bf16(M, K), bf16(K, N)],
    instructions: [cast(0, f32(M, K)), cast(1, f32(K, N)), matmul(2, 3, result)],
    outputs: [4],
  }),
  'that is rounded': programOf({
    inputs: [bf16(M, K), bf16(K, N)],
    instructions: [
      cast(0, f32(M, K)),
      cast(1, f32(K, N)),
      matmul(2, 3, result),
      cast(4, bf16(M, N)),
    ],
    outputs: [5],
  }),
  'that is rounded, and given away in f32': programOf({
    inputs: [bf16(M, K), bf16(K, N)],
    instructions: [
      cast(0, f32(M, K)),
      cast(1, f32(K, N)),
      matmul(2, 3, result),
      cast(4, bf16(M, N)),
      cast(5, f32(M, N)),
    ],
    outputs: [6],
  }),
  'that is rounded, and given away in f32 and 16 bits': programOf({
    inputs: [bf16(M, K), bf16(K, N)],
    instructions: [
      cast(0, f32(M, K)),
      cast(1, f32(K, N)),
      matmul(2, 3, result),
      cast(4, bf16(M, N)),
      cast(5, f32(M, N)),
    ],
    outputs: [5, 6],
  }),
  'that is read both in f32 and rounded': programOf({
    inputs: [bf16(M, K), bf16(K, N)],
    instructions: [
      cast(0, f32(M, K)),
      cast(1, f32(K, N)),
      matmul(2, 3, result),
      cast(4, bf16(M, N)),
    ],
    outputs: [4, 5],
  }),
  'that is scaled and has a bias, and is rounded': programOf({
    inputs: [bf16(M, K), bf16(K, N), bf16(1, N)],
    instructions: [
      cast(0, f32(M, K)),
      cast(1, f32(K, N)),
      matmul(3, 4, result),
      constant(0.25, result),
      binary('mul', 5, 6, result),
      cast(2, f32(1, N)),
      expand(8, result),
      binary('add', 7, 9, result),
      cast(10, bf16(M, N)),
    ],
    outputs: [11],
  }),
  'of batches, one of which is repeated': programOf({
    inputs: [bf16(3, 1, M, K), bf16(2, K, N)],
    instructions: [
      cast(0, f32(3, 1, M, K)),
      cast(1, f32(2, K, N)),
      matmul(2, 3, f32(3, 2, M, N)),
      cast(4, bf16(3, 2, M, N)),
    ],
    outputs: [5],
  }),
  'of an operand that repeats one element, and of one that is all the same': programOf({
    inputs: [bf16(1, 1)],
    instructions: [
      expand(0, bf16(M, K)),
      cast(1, f32(M, K)),
      { op: 'constant', params: { value: 0.5, ...bf16(K, N) }, inputs: [], ...bf16(K, N) },
      cast(3, f32(K, N)),
      matmul(2, 4, result),
    ],
    outputs: [5],
  }),
  'of a result that the next one reads': programOf({
    inputs: [bf16(M, M), bf16(M, M)],
    instructions: [
      cast(0, f32(M, M)),
      cast(1, f32(M, M)),
      matmul(2, 3, f32(M, M)),
      cast(4, bf16(M, M)),
      cast(5, f32(M, M)),
      matmul(6, 3, f32(M, M)),
    ],
    outputs: [7],
  }),
};

describe('a product of bf16 values', () => {
  it.each(Object.entries(programs))('%s is what f32 makes of them', async (_, program) => {
    const [own, others] = await Promise.all([
      results(program, 'own'),
      results(program, 'onnxruntime'),
    ]);
    own.forEach((values, output) => {
      const largest = Math.max(1, ...values.map(Math.abs));
      values.forEach((value, index) => {
        expect(Math.abs(value - (others[output]?.[index] ?? NaN))).toBeLessThan(2 ** -7 * largest);
      });
    });
  });

  it.skipIf(machine.kind === 'none')(
    'takes the values themselves, and no f32 copies of them',
    () => {
      for (const program of Object.values(programs)) {
        const { instructions, values } = simplify(program, {
          bf16: true,
          thin: false,
          attention: null,
        });
        for (const instruction of instructions.filter(({ op }) => op === 'matmul')) {
          const operands = instruction.inputs.slice(0, 2).map((id) => values[id]?.dtype);
          expect(operands).toEqual(['bf16', 'bf16']);
        }
      }
    },
  );
});

describe('a rounded product that is given away in f32', () => {
  const program = programs['that is rounded, and given away in f32'];

  it('is stored once, by the product', () => {
    if (program === undefined) throw new Error('no program');
    const partitions = analyse(
      program,
      { bf16: true, thin: false, attention: null },
      sessions,
    ).partitions.map(({ kind }) => kind);
    expect(partitions).toEqual(['product']);
  });

  it('has the digits of bf16', async () => {
    if (program === undefined) throw new Error('no program');
    const [values = []] = await results(program, 'own');
    expect(values).toEqual([...fromBf16(toBf16(Float32Array.from(values)))]);
  });
});

describe('products of f32', () => {
  it.each(['own', 'onnxruntime'] as const)('by %s read operands that are repeated', async (by) => {
    const backend = await cpu({ products: by });
    const program = programOf({
      inputs: [f32(1, 3, 5), f32(1, 1, 1)],
      instructions: [expand(0, f32(4, 3, 5)), expand(1, f32(4, 5, 2)), matmul(2, 3, f32(4, 3, 2))],
      outputs: [4],
    });
    const executable = await backend.compile(program);
    const [a, b, c] = [backend.alloc(60), backend.alloc(4), backend.alloc(96)];
    backend.write(a, new Uint8Array(Float32Array.from({ length: 15 }, (_, at) => at).buffer));
    backend.write(b, new Uint8Array(Float32Array.of(2).buffer));
    await executable.run([a, b], [c]);
    const bytes = await backend.read(c);
    const rows = [20, 20, 70, 70, 120, 120];
    expect([...new Float32Array(bytes.slice().buffer)]).toEqual([rows, rows, rows, rows].flat());
  });
});

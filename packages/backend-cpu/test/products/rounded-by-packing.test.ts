import type { Instruction, Program, ValueType } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { analyse } from '../../src/plan/analyse.ts';
import { onnxFallback } from '../../src/engines/onnx/onnx-fallback.ts';
import { Sessions } from '../../src/engines/onnx/sessions.ts';
import { cpu } from '../../src/cpu.ts';
import { binary, download, f32, matmul, programOf, upload } from '../support.ts';
import { fromBf16, machine, toBf16 } from './support.ts';

const sessions = onnxFallback(new Sessions(1));

const [M, K, N] = [40, 50, 60];
const numbers = (count: number, seed: number): Float32Array<ArrayBuffer> =>
  Float32Array.from({ length: count }, (_, index) => Math.sin(seed + index * 1.7));
const cast = (input: number, shape: readonly number[], dtype: ValueType['dtype']): Instruction => ({
  op: 'cast',
  params: { dtype },
  inputs: [input],
  shape,
  dtype,
});

/** The product x w of f32 inputs that are rounded to bf16, with sums in f32. Values 2 and 3 are bf16. */
const rounded: readonly Instruction[] = [
  cast(0, [M, K], 'bf16'),
  cast(1, [K, N], 'bf16'),
  cast(2, [M, K], 'f32'),
  cast(3, [K, N], 'f32'),
  matmul(4, 5, f32(M, N)),
];
const inputs = [f32(M, K), f32(K, N)];

function kindsOf(program: Program): string[] {
  return analyse(program, { bf16: true, thin: false, attention: null }, sessions).partitions.map(
    ({ kind }) => kind,
  );
}

async function run(program: Program, given: readonly Float32Array[]): Promise<number[][]> {
  const backend = await cpu();
  const executable = await backend.compile(program);
  const buffers = given.map((values) => upload(backend, [...values]));
  const output = backend.alloc(4 * M * N);
  await executable.run(buffers, [output]);
  return Promise.all([...buffers, output].map((buffer) => download(backend, buffer)));
}

describe('f32 inputs that are rounded to bf16 for a product', () => {
  const [x, w] = [numbers(M * K, 1), numbers(K * N, 2)];
  const narrow = (values: Float32Array): Float32Array => fromBf16(toBf16(values));

  it('are rounded as they are packed, without a pass over memory of its own', () => {
    expect(kindsOf(programOf({ inputs, instructions: rounded, outputs: [6] }))).toEqual([
      'product',
    ]);
  });

  it('are rounded as they are packed beside a bias, which alone is rounded in memory', () => {
    const bias: readonly Instruction[] = [
      cast(2, [N], 'bf16'),
      cast(8, [N], 'f32'),
      { op: 'reshape', params: { shape: [1, N] }, inputs: [9], ...f32(1, N) },
      { op: 'expand', params: { shape: [M, N] }, inputs: [10], ...f32(M, N) },
      binary('add', 7, 11, f32(M, N)),
    ];
    const instructions = [...shifted(rounded), ...bias];
    const program = programOf({ inputs: [...inputs, f32(N)], instructions, outputs: [12] });
    const { partitions } = analyse(program, { bf16: true, thin: false, attention: null }, sessions);
    const calls = partitions.flatMap((partition) =>
      partition.kind === 'kernel' ? partition.plan.calls : [],
    );
    expect(calls.map(({ sizes }) => sizes)).toEqual([[1, N]]);
    expect(partitions.filter(({ kind }) => kind === 'product')).toHaveLength(1);
  });

  it('give the bits that values of bf16 give', async () => {
    const program = programOf({ inputs, instructions: rounded, outputs: [6] });
    const [, , product] = await run(program, [x, w]);
    const [, , expected] = await run(program, [narrow(x), narrow(w)]);
    expect(product).toEqual(expected);
  });

  it('are rounded in memory where somebody else reads the 16 bits too', () => {
    const instructions = [...rounded, binary('add', 5, 5, f32(K, N))];
    const kinds = kindsOf(programOf({ inputs, instructions, outputs: [6, 7] }));
    expect(kinds).toContain('kernel');
    const alsoOutput = programOf({ inputs, instructions: rounded, outputs: [6, 3] });
    expect(kindsOf(alsoOutput)).toContain('kernel');
  });

  it.skipIf(machine.kind === 'none')('are multiplied before an update writes them', async () => {
    const sum = binary('add', 1, 1, f32(K, N));
    const program: Program = {
      ...programOf({ inputs, instructions: [sum, ...shifted(rounded)], outputs: [7] }),
      updates: [{ target: 1, value: 2 }],
    };
    const [, updated, product] = await run(program, [x, w]);
    const plain = programOf({ inputs, instructions: rounded, outputs: [6] });
    const [, , expected] = await run(plain, [x, w]);
    expect(product).toEqual(expected);
    expect(updated).toEqual([...w].map((value) => Math.fround(2 * value)));
    // The next run must read the updated input and not an operand that an earlier run packed.
    const [, , next] = await run(program, [x, Float32Array.from(updated ?? [])]);
    expect(next).toEqual((expected ?? []).map((value) => 2 * value));
  });
});

/** The same instructions when the program has one more input. */
function shifted(instructions: readonly Instruction[]): Instruction[] {
  return instructions.map((instruction) => ({
    ...instruction,
    inputs: instruction.inputs.map((id) => (id < inputs.length ? id : id + 1)),
  }));
}

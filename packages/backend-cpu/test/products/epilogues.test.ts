import type { Instruction, Program, ValueType } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { analyse } from '../../src/plan/analyse.ts';
import type { AnalysedPartition } from '../../src/plan/analysed-partition.ts';
import { cpu, type CpuOptions } from '../../src/cpu.ts';
import { onnxFallback } from '../../src/engines/onnx/onnx-fallback.ts';
import { Sessions } from '../../src/engines/onnx/sessions.ts';
import { binary, bytesOf, constant, f32, matmul, programOf } from '../support.ts';

const sessions = onnxFallback(new Sessions(1));

/** The rows and the depth need several blocks, and no panel size divides any size. */
const [M, K, N] = [403, 1000, 150];
const [x, w, bias, other] = [f32(M, K), f32(K, N), f32(N), f32(M, N)];
const result = f32(M, N);
const narrow = { shape: [M, N], dtype: 'bf16' } as const;
const inputs = [x, w, bias, other];

const product = matmul(0, 1, result);
const gelu = (input: number): Instruction => ({
  op: 'gelu',
  params: { approximate: 'tanh' },
  inputs: [input],
  ...result,
});
const cast = (input: number, type: ValueType): Instruction => ({
  op: 'cast',
  params: { dtype: type.dtype },
  inputs: [input],
  ...type,
});

/**
 * Programs that begin with four inputs. The last output is the result. Other parts of the program read the outputs
 * before it.
 */
const programs: Readonly<Record<string, { instructions: Instruction[]; outputs: number[] }>> = {
  'bias and activation, of which backward reads both values': {
    instructions: [
      product,
      { op: 'reshape', params: { shape: [1, N] }, inputs: [2], ...f32(1, N) },
      { op: 'expand', params: { shape: [M, N] }, inputs: [5], ...result },
      binary('add', 4, 6, result),
      gelu(7),
    ],
    outputs: [7, 8],
  },
  'the derivative of an activation': {
    instructions: [
      product,
      { op: 'geluGrad', params: { approximate: 'tanh' }, inputs: [3, 4], ...result },
    ],
    outputs: [5],
  },
  'a scale and a residual': {
    instructions: [
      product,
      constant(0.5, result),
      binary('mul', 4, 5, result),
      binary('add', 3, 6, result),
    ],
    outputs: [7],
  },
  'values of 16 bits': {
    instructions: [product, gelu(4), cast(5, narrow), cast(6, result)],
    outputs: [6, 7],
  },
};

function partitionsOf(program: Program): readonly AnalysedPartition[] {
  return analyse(program, { bf16: true, thin: true, attention: null }, sessions).partitions;
}

/** Counts the loops that run as epilogues of products, and those that run after them. */
function counted(partitions: readonly AnalysedPartition[]): { epilogues: number; others: number } {
  return partitions.reduce(
    ({ epilogues, others }, partition) => ({
      epilogues: epilogues + (partition.kind === 'product' ? partition.epilogue.length : 0),
      others: others + (partition.kind === 'kernel' ? partition.plan.calls.length : 0),
    }),
    { epilogues: 0, others: 0 },
  );
}

async function run(program: Program, options: CpuOptions): Promise<Uint8Array[]> {
  const backend = await cpu(options);
  const executable = await backend.compile(program);
  const buffers = program.inputs.map(({ shape }, seed) => {
    const length = shape.reduce((count, size) => count * size, 1);
    const values = Array.from({ length }, (_, index) => Math.sin(seed + index * 1.7));
    const buffer = backend.alloc(4 * length);
    backend.write(buffer, bytesOf(values));
    return buffer;
  });
  const types = [...program.inputs, ...program.instructions];
  const outputs = program.outputs.map((id) =>
    backend.alloc((types[id]?.dtype === 'bf16' ? 2 : 4) * M * N),
  );
  // It runs twice, because a call advances the addresses that it is given.
  await executable.run(buffers, outputs);
  await executable.run(buffers, outputs);
  return Promise.all(outputs.map((buffer) => backend.read(buffer)));
}

describe.each(Object.entries(programs))('%s', (_, { instructions, outputs }) => {
  const program = programOf({ inputs, instructions, outputs });

  it('run with the product, and no loop over its elements is left', () => {
    expect(counted(partitionsOf(program))).toEqual({ epilogues: 1, others: 0 });
  });

  it('have the bits of loops behind the product, on one thread and on two', async () => {
    const expected = await run(program, { loops: 'webassembly' });
    expect(await run(program, {})).toEqual(expected);
    expect(await run(program, { threads: 2 })).toEqual(expected);
    expect(await run(program, { instructions: 'AVX2' })).toEqual(expected);
  });
});

describe('an epilogue', () => {
  it('has the random numbers of dropout, whose places count from the first row', async () => {
    const bits = { shape: [M, N], dtype: 'i32' } as const;
    const instructions: Instruction[] = [
      matmul(0, 1, result),
      { op: 'random', params: { shape: [M, N] }, inputs: [4], ...bits },
      cast(6, result),
      binary('mul', 5, 7, result),
    ];
    const key = { shape: [2], dtype: 'i32' } as const;
    const program = programOf({ inputs: [...inputs, key], instructions, outputs: [8] });
    expect(counted(partitionsOf(program))).toEqual({ epilogues: 1, others: 0 });
    expect(await run(program, {})).toEqual(await run(program, { loops: 'webassembly' }));
  });

  it('is of the product that its loops read, which comes last of those that could', () => {
    const gram = f32(M, M);
    const instructions: Instruction[] = [
      product,
      {
        op: 'matmul',
        params: { transposeA: false, transposeB: true },
        inputs: [3, 3],
        ...gram,
      },
      { op: 'geluGrad', params: { approximate: 'tanh' }, inputs: [3, 4], ...result },
    ];
    const program = programOf({ inputs, instructions, outputs: [5, 6] });
    const partitions = partitionsOf(program);
    expect(partitions).toMatchObject([
      { kind: 'product', product: { columns: M }, epilogue: [] },
      { kind: 'product', product: { columns: N }, epilogue: [{}] },
      { kind: 'kernel', plan: { calls: [] } },
    ]);
  });

  it('is nothing that needs other rows, nor what reads a value that others make behind it', () => {
    const sum: Instruction = { op: 'sum', params: { dims: [0] }, inputs: [4], ...f32(N) };
    const instructions: Instruction[] = [
      product,
      sum,
      { op: 'reshape', params: { shape: [1, N] }, inputs: [5], ...f32(1, N) },
      { op: 'expand', params: { shape: [M, N] }, inputs: [6], ...result },
      binary('sub', 4, 7, result),
    ];
    const program = programOf({ inputs, instructions, outputs: [8] });
    expect(counted(partitionsOf(program))).toEqual({ epilogues: 0, others: 2 });
  });

  it('is empty for a product of several matrices', () => {
    const [a, b, y] = [f32(3, 8, 8), f32(3, 8, 8), f32(3, 8, 8)];
    const program = programOf({
      inputs: [a, b],
      instructions: [matmul(0, 1, y), binary('mul', 2, 2, y)],
      outputs: [3],
    });
    expect(counted(partitionsOf(program))).toEqual({ epilogues: 0, others: 1 });
  });
});

import type { Instruction, Program } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { cpu } from '../src/cpu.ts';
import { binary, download, f32, matmul, programOf, unary, upload } from './support.ts';

/** The matrices are large enough for fused kernels. */
const side = 80;
const type = f32(side, side);

function filled(value: number): number[] {
  return repeated(value, side * side);
}

function repeated(value: number, count: number): number[] {
  return Array.from({ length: count }, () => value);
}

/** Runs a program on constant matrices. Returns the first elements of the inputs and of the outputs after the run. */
async function firstElements(
  program: Program,
  inputs: readonly number[],
): Promise<{ inputs: number[]; outputs: number[] }> {
  const backend = await cpu();
  const executable = await backend.compile(program);
  const sources = inputs.map((value) => upload(backend, filled(value)));
  const results = program.outputs.map(() => backend.alloc(side * side * 4));
  await executable.run(sources, results);
  const first = async (buffers: readonly (typeof results)[number][]): Promise<number[]> => {
    const values = await Promise.all(buffers.map((buffer) => download(backend, buffer)));
    expect(values.every((list) => list.every((value) => value === list[0]))).toBe(true);
    return values.map(([value = NaN]) => value);
  };
  return { inputs: await first(sources), outputs: await first(results) };
}

function reshape(input: number, shape: readonly number[]): Instruction {
  return { op: 'reshape', params: { shape }, inputs: [input], shape, dtype: 'f32' };
}

describe('updates', () => {
  it('replace inputs with elementwise results', async () => {
    const program = programOf({
      inputs: [type, type],
      instructions: [binary('sub', 0, 1, type), binary('mul', 1, 1, type)],
      updates: [
        { target: 0, value: 2 },
        { target: 1, value: 3 },
      ],
    });
    expect(await firstElements(program, [5, 3])).toEqual({ inputs: [2, 9], outputs: [] });
  });

  it('replace inputs with results of sessions', async () => {
    const program = programOf({
      inputs: [type, type],
      instructions: [matmul(0, 1, type)],
      updates: [{ target: 0, value: 2 }],
    });
    expect(await firstElements(program, [2, 3])).toEqual({ inputs: [6 * side, 3], outputs: [] });
  });

  it('leave the old contents to all instructions that read the input', async () => {
    const program = programOf({
      inputs: [type, type],
      instructions: [
        binary('add', 0, 1, type),
        unary('neg', 0, type),
        matmul(0, 1, type),
        binary('add', 4, 0, type),
      ],
      outputs: [3, 5],
      updates: [{ target: 0, value: 2 }],
    });
    expect(await firstElements(program, [2, 1])).toEqual({
      inputs: [3, 1],
      outputs: [-2, 2 * side + 2],
    });
  });

  it('can exchange the contents of two inputs', async () => {
    const program = programOf({
      inputs: [type, type],
      instructions: [unary('neg', 1, type), unary('neg', 0, type)],
      updates: [
        { target: 0, value: 2 },
        { target: 1, value: 3 },
      ],
    });
    expect(await firstElements(program, [1, 2])).toEqual({ inputs: [-2, -1], outputs: [] });
  });

  it('wait for readers of the old contents behind a reshape', async () => {
    const flat = f32(side * side);
    const program = programOf({
      inputs: [type, type],
      instructions: [
        unary('neg', 1, type),
        reshape(0, flat.shape),
        unary('neg', 3, flat),
        reshape(4, type.shape),
        binary('add', 5, 1, type),
      ],
      updates: [
        { target: 0, value: 2 },
        { target: 1, value: 6 },
      ],
    });
    expect(await firstElements(program, [1, 5])).toEqual({ inputs: [-5, 4], outputs: [] });
  });

  it('can copy one input into another', async () => {
    const program = programOf({
      inputs: [type, type],
      instructions: [reshape(1, [side, side])],
      updates: [{ target: 0, value: 2 }],
    });
    expect(await firstElements(program, [1, 2])).toEqual({ inputs: [2, 2], outputs: [] });
  });

  it('can be outputs at the same time as the old contents', async () => {
    const program = programOf({
      inputs: [type],
      instructions: [binary('add', 0, 0, type)],
      outputs: [1, 0],
      updates: [{ target: 0, value: 1 }],
    });
    expect(await firstElements(program, [4])).toEqual({ inputs: [8], outputs: [8, 4] });
  });

  it('can write one value into several inputs', async () => {
    const program = programOf({
      inputs: [type, type],
      instructions: [binary('add', 0, 1, type)],
      updates: [
        { target: 0, value: 2 },
        { target: 1, value: 2 },
      ],
    });
    expect(await firstElements(program, [4, 5])).toEqual({ inputs: [9, 9], outputs: [] });
  });

  it('can be read by later instructions as values', async () => {
    const program = programOf({
      inputs: [type],
      instructions: [binary('add', 0, 0, type), matmul(1, 0, type)],
      outputs: [2],
      updates: [{ target: 0, value: 1 }],
    });
    expect(await firstElements(program, [1])).toEqual({ inputs: [2], outputs: [2 * side] });
  });
});

describe('outputs', () => {
  it('may be reshapes of each other and of inputs', async () => {
    const program = programOf({
      inputs: [type],
      instructions: [
        reshape(0, [side * side]),
        unary('neg', 0, type),
        reshape(2, [side * side]),
        reshape(3, [side, 1, side]),
      ],
      outputs: [1, 2, 3, 4],
    });
    expect(await firstElements(program, [3])).toEqual({ inputs: [3], outputs: [3, -3, -3, -3] });
  });
});

describe('rows that are written by their indices', () => {
  const [rows, columns] = [2000, 16];
  const index = { shape: [2, columns], dtype: 'i32' } as const;
  const program = programOf({
    inputs: [f32(rows, columns), index, f32(2, columns), f32(columns, columns)],
    instructions: [
      { op: 'scatter', params: { dim: 0 }, inputs: [0, 1, 2], ...f32(rows, columns) },
      matmul(4, 3, f32(rows, columns)),
    ],
    outputs: [5],
    updates: [{ target: 0, value: 4 }],
  });
  const identity = Array.from({ length: columns ** 2 }, (_, at) =>
    Number(at % (columns + 1) === 0),
  );

  async function run(places: readonly [number, number]): Promise<{
    temporaryBytes: number;
    done: Promise<void>;
    kept: () => Promise<number[]>;
    read: () => Promise<number[]>;
  }> {
    const backend = await cpu();
    const executable = await backend.compile(program);
    const kept = upload(backend, repeated(1, rows * columns));
    const indices = backend.alloc(4 * 2 * columns);
    const numbers = Int32Array.from({ length: 2 * columns }, (_, at) =>
      at < columns ? places[0] : places[1],
    );
    backend.write(indices, new Uint8Array(numbers.buffer));
    const source = upload(backend, repeated(7, 2 * columns));
    const result = backend.alloc(4 * rows * columns);
    const { values } = executable.temporaries ?? { values: [] };
    return {
      temporaryBytes: values.reduce((sum, { byteLength }) => sum + byteLength, 0),
      done: executable.run([kept, indices, source, upload(backend, identity)], [result]),
      kept: () => download(backend, kept),
      read: () => download(backend, result),
    };
  }

  it('change nothing else, need no copy of the others, and are read by what follows', async () => {
    const { temporaryBytes, done, kept, read } = await run([3, 1500]);
    await done;
    const expected = Array.from({ length: rows * columns }, (_, at) =>
      [3, 1500].includes(Math.floor(at / columns)) ? 7 : 1,
    );
    expect(await kept()).toEqual(expected);
    expect(await read()).toEqual(expected);
    expect(temporaryBytes).toBeLessThan(rows * columns);
  });

  it('change nothing if an index is out of range', async () => {
    const { done, kept } = await run([3, rows]);
    await expect(done).rejects.toMatchObject({ code: 'INDEX', fields: { updated: false } });
    expect(new Set(await kept())).toEqual(new Set([1]));
  });
});

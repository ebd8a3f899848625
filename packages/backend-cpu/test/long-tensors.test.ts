import type { DeviceBuffer, Instruction } from '@shardwise/core/spec';
import { memoryLimits } from '@shardwise/wasm-assembler';
import { describe, expect, it } from 'vitest';
import { cpu, type CpuBackend } from '@shardwise/backend-cpu';
import { bytesOf, download, f32, programOf } from './support.ts';

// The tensor has more than 4 GiB, and only its last row is ever written. The system supplies no pages for the rest.

const columns = 1024;
const rows = 2 ** 20 + 2;
const x = f32(rows, columns);
const row = Array.from({ length: columns }, (_, column) => column + 1);

async function backendWithX(): Promise<readonly [CpuBackend, DeviceBuffer]> {
  const backend = await cpu({ byteLength: 5 * 2 ** 30 });
  const buffer = backend.alloc(4 * rows * columns);
  backend.write(buffer.subBuffer(4 * (rows - 1) * columns, 4 * columns), bytesOf(row));
  return [backend, buffer];
}

function i32(...values: number[]): Uint8Array {
  return new Uint8Array(Int32Array.from(values).buffer);
}

const indices = { shape: [2], dtype: 'i32' } as const;
const twoRows = { shape: [2, columns], dtype: 'f32' } as const;
const lastIndices = { shape: [1, 2], dtype: 'i32' } as const;

const readers: readonly (readonly [string, Instruction, Uint8Array, readonly number[]])[] = [
  [
    'indexSelect',
    { op: 'indexSelect', params: { dim: 0 }, inputs: [0, 1], ...twoRows },
    i32(rows - 1, 0),
    [...row, ...Array<number>(columns).fill(0)],
  ],
  [
    'gather',
    { op: 'gather', params: { dim: 0 }, inputs: [0, 1], shape: [1, 2], dtype: 'f32' },
    i32(rows - 1, rows - 1),
    [1, 2],
  ],
  [
    'slice',
    {
      op: 'slice',
      params: { starts: [rows - 2, 0], stops: [rows, columns], steps: [1, 1] },
      inputs: [0],
      ...twoRows,
    },
    i32(0, 0),
    [...Array<number>(columns).fill(0), ...row],
  ],
  [
    'sum',
    { op: 'sum', params: { dims: [0, 1] }, inputs: [0], shape: [], dtype: 'f32' },
    i32(0, 0),
    [(columns * (columns + 1)) / 2],
  ],
];

describe.runIf(memoryLimits().largestBytes >= 5 * 2 ** 30)('a tensor of more than 4 GiB', () => {
  it.each(readers)('is read at its end by %s', async (name, instruction, chosen, expected) => {
    const [backend, buffer] = await backendWithX();
    const index = backend.alloc(8);
    backend.write(index, chosen);
    const output = backend.alloc(4 * expected.length);
    const executable = await backend.compile(
      programOf({
        inputs: [x, name === 'gather' ? lastIndices : indices],
        instructions: [instruction],
        outputs: [2],
      }),
    );
    await executable.run([buffer, index], [output]);
    expect(await download(backend, output)).toEqual(expected);
  });

  it('is updated at its end', async () => {
    const [backend, buffer] = await backendWithX();
    const last = buffer.subBuffer(4 * (rows - 1) * columns, 4 * columns);
    const executable = await backend.compile(
      programOf({
        inputs: [f32(columns)],
        instructions: [{ op: 'add', params: {}, inputs: [0, 0], ...f32(columns) }],
        updates: [{ target: 0, value: 1 }],
      }),
    );
    await executable.run([last], []);
    expect(await download(backend, last)).toEqual(row.map((value) => 2 * value));
  });
});

import type { Instruction } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { RunAddresses } from '../src/run/run-addresses.ts';
import { cpu } from '../src/cpu.ts';
import { Arena } from '../src/memory/arena.ts';
import { binary, download, f32, matmul, programOf, upload } from './support.ts';

const [rows, columns] = [30, 20];
const square = f32(rows, rows);
const gelu: Instruction = {
  op: 'gelu',
  params: { approximate: 'tanh' },
  inputs: [2],
  ...square,
};
const turned: Instruction = { op: 'permute', params: { order: [1, 0] }, inputs: [3], ...square };
const softmax: Instruction = { op: 'softmax', params: { dim: 1 }, inputs: [4], ...square };
/** A product with an epilogue, a copy of rows in WebAssembly, a loop over rows, and an update in place. */
const program = programOf({
  inputs: [f32(rows, columns), f32(columns, rows)],
  instructions: [
    matmul(0, 1, square),
    gelu,
    turned,
    softmax,
    binary('add', 0, 0, f32(rows, columns)),
  ],
  outputs: [5],
  updates: [{ target: 0, value: 6 }],
});

describe('runs of one executable', () => {
  it.each(['own', 'webassembly'] as const)(
    'read and write where the buffers of each lie, with loops by %s',
    async (loops) => {
      const backend = await cpu({ loops, byteLength: 2 ** 26 });
      const executable = await backend.compile(program);
      const wave = (seed: number): number[] =>
        Array.from({ length: rows * columns }, (_, at) => Math.sin(seed + at));
      const sets = [1, 2].map((seed) => ({
        x: upload(backend, wave(seed)),
        w: upload(backend, wave(seed + 10)),
        y: backend.alloc(4 * rows * rows),
      }));
      const seen: number[][] = [];
      for (const at of [0, 0, 1, 1, 0]) {
        const { x, w, y } = sets[at] ?? {};
        if (x === undefined || w === undefined || y === undefined) throw new Error('no buffers');
        const fresh = await cpu({ loops, byteLength: 2 ** 26 });
        const alone = await fresh.compile(program);
        const inputs = [
          upload(fresh, await download(backend, x)),
          upload(fresh, await download(backend, w)),
        ];
        const expected = fresh.alloc(4 * rows * rows);
        await alone.run(inputs, [expected]);
        await executable.run([x, w], [y]);
        const result = await download(backend, y);
        expect(result).toEqual(await download(fresh, expected));
        seen.push(result);
      }
      // The inputs are updated in place, so no two runs have the same results.
      expect(new Set(seen.map((values) => values.join())).size).toBe(seen.length);
    },
  );
});

describe('addresses of a run', () => {
  it('gives the function of the run before where all buffers lie where they did, and else another one', () => {
    const arena = new Arena(new WebAssembly.Memory({ initial: 1 }));
    const [a, b, c] = [arena.alloc(64), arena.alloc(64), arena.alloc(64)];
    const addresses = new RunAddresses({
      of: new Map([
        [0, { in: 'input', index: 0 }],
        [1, { in: 'output', index: 0 }],
        [2, { in: 'scratch', byteOffset: 32 }],
      ]),
      scratchBytes: 64,
      temporaries: { parts: 1, values: [] },
    });
    const first = addresses.at([a], [b], 1024);
    expect([0, 1, 2].map(first)).toEqual([a.byteOffset, b.byteOffset, 1056]);
    expect(addresses.at([a], [b], 1024)).toBe(first);
    const moved = addresses.at([c], [b], 1024);
    expect([0, 1, 2].map(moved)).toEqual([c.byteOffset, b.byteOffset, 1056]);
    expect([0, 1, 2].map(first)).toEqual([a.byteOffset, b.byteOffset, 1056]);
    expect(addresses.at([c], [b], 2048)(2)).toBe(2080);
  });
});

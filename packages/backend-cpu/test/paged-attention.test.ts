import { IndexError, type Program } from '@shardwise/core/spec';
import { describe, expect, test } from 'vitest';
import type { CpuBackend } from '../src/cpu-backend.ts';
import { cpu } from '../src/cpu.ts';
import { bytesOf, download, f32, programOf, upload } from './support.ts';

interface Sizes {
  readonly heads: number;
  readonly groups: number;
  readonly queries: number;
  readonly width: number;
  readonly blockSize: number;
  readonly blocks: number;
}

const scale = 0.3;

/** Shape: q [1, H, T, D], k, v [N, P, G, D], table [1, M], ranges [1, T, 2] -> [1, H, T, D]. */
function paged({ heads, groups, queries, width, blockSize, blocks }: Sizes): Program {
  const kept = f32(blocks, blockSize, groups, width);
  const type = f32(1, heads, queries, width);
  return programOf({
    inputs: [
      type,
      kept,
      kept,
      { shape: [1, blocks], dtype: 'i32' },
      { shape: [1, queries, 2], dtype: 'i32' },
    ],
    instructions: [{ op: 'pagedAttention', params: { scale }, inputs: [0, 1, 2, 3, 4], ...type }],
    outputs: [5],
  });
}

/** Causal attention of all keys, of which the last ones belong to the queries. Shape: q [1, H, S, D], k, v [1, G, S, D]. */
function contiguous({ heads, groups, width }: Sizes, length: number): Program {
  const type = f32(1, heads, length, width);
  const kept = f32(1, groups, length, width);
  const params = { causal: true, hasKeyRanges: false, scale, rounding: 'none' } as const;
  return programOf({
    inputs: [type, kept, kept],
    instructions: [{ op: 'attention', params, inputs: [0, 1, 2], ...type }],
    outputs: [3],
  });
}

function numbers(count: number, seed: number): number[] {
  return Array.from({ length: count }, (_, at) => Math.sin(at * 12.9898 + seed * 78.233) * 2);
}

async function run(
  backend: CpuBackend,
  program: Program,
  inputs: readonly (readonly number[] | Int32Array)[],
  elements: number,
): Promise<number[]> {
  const executable = await backend.compile(program);
  const result = backend.alloc(4 * elements);
  const buffers = inputs.map((input) => {
    if (!(input instanceof Int32Array)) return upload(backend, input);
    const buffer = backend.alloc(input.byteLength);
    backend.write(buffer, new Uint8Array(input.buffer));
    return buffer;
  });
  try {
    await executable.run(buffers, [result]);
    return await download(backend, result);
  } finally {
    for (const buffer of [...buffers, result]) backend.free(buffer);
    executable.dispose();
  }
}

/** Rows of heads [G, S, D] in blocks [N, P, G, D], in the order of a table. */
function inBlocks(
  rows: readonly number[],
  { groups, width, blockSize, blocks }: Sizes,
  table: Int32Array,
): number[] {
  const kept = Array.from({ length: blocks * blockSize * groups * width }, () => 7);
  const length = rows.length / groups / width;
  for (let key = 0; key < length; key++) {
    const slot = (table[Math.floor(key / blockSize)] ?? 0) * blockSize + (key % blockSize);
    for (let group = 0; group < groups; group++) {
      for (let i = 0; i < width; i++) {
        kept[(slot * groups + group) * width + i] = rows[(group * length + key) * width + i] ?? 0;
      }
    }
  }
  return kept;
}

describe('Attention through a table of blocks', () => {
  test.each<Sizes & { readonly length: number }>([
    { heads: 3, groups: 3, queries: 1, width: 16, blockSize: 16, blocks: 9, length: 131 },
    { heads: 4, groups: 2, queries: 1, width: 64, blockSize: 16, blocks: 40, length: 600 },
    { heads: 2, groups: 2, queries: 64, width: 32, blockSize: 16, blocks: 12, length: 177 },
    { heads: 2, groups: 1, queries: 17, width: 8, blockSize: 1, blocks: 90, length: 83 },
    { heads: 2, groups: 2, queries: 100, width: 24, blockSize: 5, blocks: 60, length: 290 },
  ])('has the bits of attention to keys that lie together: %j', async ({ length, ...sizes }) => {
    const { heads, groups, queries, width, blocks } = sizes;
    const backend = await cpu({ byteLength: 2 ** 26 });
    const q = numbers(heads * length * width, 1);
    const [k, v] = [numbers(groups * length * width, 2), numbers(groups * length * width, 3)];
    const all = await run(backend, contiguous(sizes, length), [q, k, v], q.length);
    // Blocks lie in an order that has nothing to do with that of the keys.
    const table = Int32Array.from({ length: blocks }, (_, at) => (at * 7 + 3) % blocks);
    const last = (rows: readonly number[]): number[] =>
      Array.from({ length: heads }, (_, head) =>
        rows.slice((head * length + length - queries) * width, (head + 1) * length * width),
      ).flat();
    const ranges = Int32Array.from({ length: 2 * queries }, (_, at) =>
      at % 2 === 0 ? 0 : length - queries + (at + 1) / 2,
    );
    const found = await run(
      backend,
      paged(sizes),
      [last(q), inBlocks(k, sizes, table), inBlocks(v, sizes, table), table, ranges],
      heads * queries * width,
    );
    expect(new Set(table).size).toBe(blocks);
    expect(bytesOf(found)).toEqual(bytesOf(last(all)));
  });

  test('reads keys and values where they lie: there is no memory for a copy', async () => {
    const sizes = { heads: 2, groups: 2, queries: 1, width: 64, blockSize: 16, blocks: 2048 };
    const kept = 4 * sizes.blocks * sizes.blockSize * sizes.groups * sizes.width;
    const backend = await cpu({ byteLength: Math.ceil((2.5 * kept) / 65536) * 65536 });
    const executable = await backend.compile(paged(sizes));
    const table = Int32Array.from({ length: sizes.blocks }, (_, at) => sizes.blocks - 1 - at);
    const buffers = [4 * 2 * 64, kept, kept, table.byteLength, 8].map((bytes) => {
      const buffer = backend.alloc(bytes);
      backend.write(buffer, new Uint8Array(bytes));
      return buffer;
    });
    const [, , , ofTable, ofRanges] = buffers;
    if (ofTable === undefined || ofRanges === undefined) expect.fail();
    backend.write(ofTable, new Uint8Array(table.buffer));
    const ranges = Int32Array.of(0, sizes.blocks * sizes.blockSize);
    backend.write(ofRanges, new Uint8Array(ranges.buffer));
    const result = backend.alloc(4 * 2 * 64);
    await executable.run(buffers, [result]);
    expect(new Set(await download(backend, result))).toEqual(new Set([0]));
  });

  test('refuses a block that is not there', async () => {
    const backend = await cpu({ byteLength: 2 ** 24 });
    const sizes = { heads: 1, groups: 1, queries: 1, width: 4, blockSize: 2, blocks: 3 };
    const kept = numbers(3 * 2 * 4, 1);
    const running = run(
      backend,
      paged(sizes),
      [numbers(4, 1), kept, kept, Int32Array.of(0, 3, 1), Int32Array.of(0, 6)],
      4,
    );
    await expect(running).rejects.toThrow(IndexError);
    await expect(running).rejects.toThrow('element 1 of the indices is not in [0, 3)');
  });
});

import { type HalfDType, IndexError, type Program } from '@shardwise/core/spec';
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

/** Shape: q [B, H, T, D], k, v [N, P, G, D], table [B, M], ranges [B, T, 2] -> [B, H, T, D]. */
function paged({ heads, groups, queries, width, blockSize, blocks }: Sizes, batch = 1): Program {
  const kept = f32(blocks, blockSize, groups, width);
  const type = f32(batch, heads, queries, width);
  return programOf({
    inputs: [
      type,
      kept,
      kept,
      { shape: [batch, blocks], dtype: 'i32' },
      { shape: [batch, queries, 2], dtype: 'i32' },
    ],
    instructions: [
      {
        op: 'pagedAttention',
        params: { scale, rounding: 'none' },
        inputs: [0, 1, 2, 3, 4],
        ...type,
      },
    ],
    outputs: [5],
  });
}

/** As `paged`, with keys and values that are kept in 16 bits and cast to f32. */
function pagedInHalves(sizes: Sizes, dtype: HalfDType): Program {
  const { heads, groups, queries, width, blockSize, blocks } = sizes;
  const wide = f32(blocks, blockSize, groups, width);
  const type = f32(1, heads, queries, width);
  return programOf({
    inputs: [
      type,
      { ...wide, dtype },
      { ...wide, dtype },
      { shape: [1, blocks], dtype: 'i32' },
      { shape: [1, queries, 2], dtype: 'i32' },
    ],
    instructions: [
      { op: 'cast', params: { dtype: 'f32' }, inputs: [1], ...wide },
      { op: 'cast', params: { dtype: 'f32' }, inputs: [2], ...wide },
      {
        op: 'pagedAttention',
        params: { scale, rounding: 'none' },
        inputs: [0, 5, 6, 3, 4],
        ...type,
      },
    ],
    outputs: [7],
  });
}

/** As `paged`, with keys and values that are kept as bytes, with a scale for each head of a token. */
function pagedInBytes(sizes: Sizes): Program {
  const { heads, groups, queries, width, blockSize, blocks } = sizes;
  const wide = f32(blocks, blockSize, groups, width);
  const bytes = { ...wide, dtype: 'u8' } as const;
  const scales = f32(blocks, blockSize, groups, 1);
  const type = f32(1, heads, queries, width);
  const inputs = [
    type,
    bytes,
    bytes,
    { shape: [1, blocks], dtype: 'i32' },
    { shape: [1, queries, 2], dtype: 'i32' },
    scales,
    scales,
  ] as const;
  const dequantized = (of: number, ofScales: number, first: number) =>
    [
      { op: 'cast', params: { dtype: 'f32' }, inputs: [of], ...wide },
      { op: 'constant', params: { value: 128, ...wide }, inputs: [], ...wide },
      { op: 'sub', params: {}, inputs: [first, first + 1], ...wide },
      { op: 'expand', params: { shape: wide.shape }, inputs: [ofScales], ...wide },
      { op: 'mul', params: {}, inputs: [first + 2, first + 3], ...wide },
    ] as const;
  return programOf({
    inputs,
    instructions: [
      ...dequantized(1, 5, 7),
      ...dequantized(2, 6, 12),
      {
        op: 'pagedAttention',
        params: { scale, rounding: 'none' },
        inputs: [0, 11, 16, 3, 4],
        ...type,
      },
    ],
    outputs: [17],
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
  inputs: readonly (readonly number[] | Int32Array | Uint16Array | Uint8Array)[],
  elements: number,
): Promise<number[]> {
  const executable = await backend.compile(program);
  const result = backend.alloc(4 * elements);
  const buffers = inputs.map((input) => {
    if (!ArrayBuffer.isView(input)) return upload(backend, input);
    const buffer = backend.alloc(input.byteLength);
    backend.write(buffer, new Uint8Array(input.buffer, input.byteOffset, input.byteLength));
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

  test('a query has the same bits alone and beside others, which threads share out', async () => {
    const sizes = { heads: 4, groups: 2, queries: 1, width: 64, blockSize: 16, blocks: 40 };
    const { heads, groups, width, blockSize, blocks } = sizes;
    const backend = await cpu({ byteLength: 2 ** 26, threads: 2 });
    const ends = [640, 600, 1, 317, 16, 512, 640, 640, 17, 480, 640, 639];
    const q = numbers(ends.length * heads * width, 1);
    const rows = groups * blocks * blockSize * width;
    const [k, v] = [numbers(rows, 2), numbers(rows, 3)];
    const tables = ends.map((_, item) =>
      Array.from({ length: blocks }, (__, at) => (at * 7 + item) % blocks),
    );
    const inputsOf = (items: readonly number[]) => [
      items.flatMap((item) => q.slice(item * heads * width, (item + 1) * heads * width)),
      k,
      v,
      Int32Array.from(items.flatMap((item) => tables[item] ?? [])),
      Int32Array.from(items.flatMap((item) => [0, ends[item] ?? 0])),
    ];
    const all = ends.map((_, item) => item);
    const together = await run(backend, paged(sizes, all.length), inputsOf(all), q.length);
    const alone: number[] = [];
    for (const item of all) {
      alone.push(...(await run(backend, paged(sizes), inputsOf([item]), heads * width)));
    }
    expect(bytesOf(together)).toEqual(bytesOf(alone));
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

  const small = { heads: 4, groups: 2, queries: 3, width: 24, blockSize: 5, blocks: 30 };
  // More blocks than are converted at once.
  const large = { heads: 2, groups: 2, queries: 70, width: 64, blockSize: 16, blocks: 70 };

  /** What queries see: all keys up to one. */
  const rangesOf = ({ queries, blockSize, blocks }: Sizes): Int32Array =>
    Int32Array.from({ length: 2 * queries }, (_, at) =>
      at % 2 === 0 ? 0 : blockSize * blocks - queries + (at + 1) / 2,
    );
  const tableOf = ({ blocks }: Sizes): Int32Array =>
    Int32Array.from({ length: blocks }, (_, at) => (at * 11 + 3) % blocks);

  test.each([
    ['bf16', small],
    ['f16', small],
    ['bf16', large],
    ['f16', large],
  ] as const)(
    'has the bits of attention to the same keys in f32, if they are kept in %s: %j',
    async (dtype, sizes) => {
      const backend = await cpu({ byteLength: 2 ** 26 });
      const { heads, queries, width, blocks, blockSize, groups } = sizes;
      const count = blocks * blockSize * groups * width;
      // Numbers of few digits, which 16 bits hold exactly.
      const exact = (seed: number): number[] =>
        numbers(count, seed).map((value) => Math.round(value * 32) / 32);
      const [k, v, q] = [exact(2), exact(3), numbers(heads * queries * width, 1)];
      const halves = (values: readonly number[]): Uint16Array =>
        dtype === 'bf16'
          ? Uint16Array.from(
              new Uint32Array(Float32Array.from(values).buffer),
              (bits) => bits >> 16,
            )
          : new Uint16Array(Float16Array.from(values).buffer);
      const rest = [tableOf(sizes), rangesOf(sizes)];
      const elements = heads * queries * width;
      const wide = await run(backend, paged(sizes), [q, k, v, ...rest], elements);
      const program = pagedInHalves(sizes, dtype);
      const half = await run(backend, program, [q, halves(k), halves(v), ...rest], elements);
      expect(bytesOf(half)).toEqual(bytesOf(wide));
    },
  );

  test.each([small, large])(
    'has the bits of attention to the same keys in f32, if they are kept as bytes: %j',
    async (sizes) => {
      const backend = await cpu({ byteLength: 2 ** 26 });
      const { heads, queries, width, blocks, blockSize, groups } = sizes;
      const rows = blocks * blockSize * groups;
      const bytes = (seed: number): Uint8Array =>
        Uint8Array.from(numbers(rows * width, seed), (value) => 128 + Math.round(value * 60));
      const scales = (seed: number): number[] =>
        numbers(rows, seed).map((value) => Math.fround(Math.abs(value) / 100 + 0.001));
      const [k, v, kScales, vScales] = [bytes(2), bytes(3), scales(4), scales(5)];
      const wide = (of: Uint8Array, by: readonly number[]): number[] =>
        Array.from(of, (byte, at) => Math.fround((byte - 128) * (by[Math.floor(at / width)] ?? 0)));
      const q = numbers(heads * queries * width, 1);
      const rest = [tableOf(sizes), rangesOf(sizes)];
      const elements = heads * queries * width;
      const expected = await run(
        backend,
        paged(sizes),
        [q, wide(k, kScales), wide(v, vScales), ...rest],
        elements,
      );
      const found = await run(
        backend,
        pagedInBytes(sizes),
        [q, k, v, ...rest, kScales, vScales],
        elements,
      );
      expect(bytesOf(found)).toEqual(bytesOf(expected));
    },
  );

  test.each(['bf16', 'f16', 'u8'] as const)(
    'converts blocks of %s as it reads them: there is no memory for a copy in f32',
    async (dtype) => {
      const sizes = { heads: 2, groups: 2, queries: 1, width: 64, blockSize: 16, blocks: 2048 };
      const rows = sizes.blocks * sizes.blockSize * sizes.groups;
      const kept = (dtype === 'u8' ? 1 : 2) * rows * sizes.width;
      // Both, the scales, and not a quarter of one of them in f32.
      const byteLength = Math.ceil((2 * kept + 8 * rows + rows * sizes.width) / 65536) * 65536;
      const backend = await cpu({ byteLength });
      const program = dtype === 'u8' ? pagedInBytes(sizes) : pagedInHalves(sizes, dtype);
      const executable = await backend.compile(program);
      const table = Int32Array.from({ length: sizes.blocks }, (_, at) => sizes.blocks - 1 - at);
      const ranges = Int32Array.of(0, sizes.blocks * sizes.blockSize);
      const contents = [
        new Uint8Array(4 * 2 * 64),
        new Uint8Array(kept),
        new Uint8Array(kept),
        new Uint8Array(table.buffer),
        new Uint8Array(ranges.buffer),
        ...(dtype === 'u8' ? [new Uint8Array(4 * rows), new Uint8Array(4 * rows)] : []),
      ];
      const buffers = contents.map((bytes) => {
        const buffer = backend.alloc(bytes.byteLength);
        backend.write(buffer, bytes);
        return buffer;
      });
      const result = backend.alloc(4 * 2 * 64);
      await executable.run(buffers, [result]);
      expect(new Set(await download(backend, result))).toEqual(new Set([0]));
    },
  );

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

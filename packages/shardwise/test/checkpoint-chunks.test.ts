import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  boxOf,
  type Chunk,
  elementCount,
  planChunks,
  type TensorChunk,
} from '@shardwise/core/extend';
import { dtypes } from '@shardwise/core/spec';
import { array, assert, integer, property } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadCheckpoint } from '../src/checkpoint/load/load-checkpoint.ts';
import { saveCheckpoint } from '../src/checkpoint/save/save-checkpoint.ts';
import { CHECKSUM_BYTES } from '../src/checkpoint/format/index-file.ts';

function range(name: string, start: number, stop: number, total: number): TensorChunk {
  return { name, dtype: 'f32', shape: [total], box: boxOf([total]), start, stop };
}

const bytesOf = (ranges: readonly TensorChunk[]): number =>
  ranges.reduce((sum, { dtype, start, stop }) => sum + (stop - start) * dtypes[dtype].bytes, 0);

describe('the plan of who writes what', () => {
  it('has each rank write its own parts', () => {
    const parts = [range('w', 0, 3, 5), range('w', 3, 5, 5)];
    expect(planChunks(parts.map((part) => [part]))).toEqual(parts.map((part) => [part]));
  });

  it('leaves out ranks that hold nothing but padding', () => {
    expect(planChunks([[range('w', 0, 1, 1)], [range('w', 1, 1, 1)]])).toEqual([
      [range('w', 0, 1, 1)],
      [],
    ]);
  });

  it('cuts what all ranks have into stretches of equal length', () => {
    const whole = range('w', 0, 90_000, 90_000);
    expect(planChunks([[whole], [whole], [whole]])).toEqual([
      [range('w', 0, 30_000, 90_000)],
      [range('w', 30_000, 60_000, 90_000)],
      [range('w', 60_000, 90_000, 90_000)],
    ]);
  });

  it('shares parts among the ranks that have the same (hybrid sharding)', () => {
    const parts = [range('w', 0, 40_000, 80_000), range('w', 40_000, 80_000, 80_000)];
    const [first, second] = parts;
    if (first === undefined || second === undefined) throw new RangeError();
    expect(planChunks([[first], [second], [first], [second]])).toEqual([
      [range('w', 0, 20_000, 80_000)],
      [range('w', 40_000, 60_000, 80_000)],
      [range('w', 20_000, 40_000, 80_000)],
      [range('w', 60_000, 80_000, 80_000)],
    ]);
  });

  it('shares boxes of columns among the ranks that have the same (tensor and data parallelism)', () => {
    const columns = (start: number, stop: number): TensorChunk => ({
      name: 'w',
      dtype: 'f32',
      shape: [20_000, 4],
      box: [
        { start: 0, stop: 20_000 },
        { start, stop },
      ],
      start: 0,
      stop: 40_000,
    });
    const [left, right] = [columns(0, 2), columns(2, 4)];
    expect(planChunks([[left], [right], [left], [right]])).toEqual([
      [{ ...left, stop: 20_000 }],
      [{ ...right, stop: 20_000 }],
      [{ ...left, start: 20_000 }],
      [{ ...right, start: 20_000 }],
    ]);
    expect(() => planChunks([[left], [columns(1, 3)]])).toThrow(
      /w \(\[0:20000, 0:2\], \[0:20000, 1:3\] of 80000 elements\)/,
    );
  });

  it('has every element written once, by a rank that has it, and ranks write about equally', () => {
    const sizes = array(integer({ min: 0, max: 200_000 }), { maxLength: 12 });
    assert(
      property(sizes, integer({ min: 1, max: 5 }), (totals, ranks) => {
        const held = totals.map((total, index) => range(`w${index}`, 0, total, total));
        const written = planChunks(Array.from({ length: ranks }, () => held));
        for (const { name, shape } of held) {
          const chunks = written
            .flat()
            .filter((chunk) => chunk.name === name)
            .toSorted((a, b) => a.start - b.start || a.stop - b.stop);
          const end = chunks.reduce((at, { start, stop }) => (start === at ? stop : NaN), 0);
          expect(end).toBe(elementCount(shape));
        }
        const largest = Math.max(...written.map(bytesOf));
        // Small tensors are not cut, so a range may exceed its share by one tensor at both ends.
        expect(largest).toBeLessThanOrEqual(bytesOf(held) / ranks + 65_536 + 4);
      }),
    );
  });

  it.each([
    [
      'leave elements out',
      [[range('w', 0, 2, 5)], [range('w', 3, 5, 5)]],
      /w \(\[0:2\], \[3:5\] of 5/,
    ],
    ['overlap', [[range('w', 0, 4, 5)], [range('w', 3, 5, 5)]], /do not make up w \(/],
    ['end early', [[range('w', 0, 4, 5)], []], /of 5 elements/],
    [
      'are of other shapes',
      [[range('w', 0, 4, 5)], [range('w', 4, 5, 6)]],
      /w \(its shapes or dtypes differ\)/,
    ],
  ])('refuses parts that %s', (_, held, message) => {
    expect(() => planChunks(held)).toThrow(message);
  });
});

describe('a range of a stored tensor', () => {
  const total = 5 * 262_144 + 100;
  const values = Float32Array.from({ length: total }, (_, index) => index);

  const elements = (start: number, stop: number): Chunk => ({
    box: boxOf([total]),
    start,
    stop,
  });

  async function save(): Promise<string> {
    const directory = await mkdtemp(join(tmpdir(), 'shardwise-chunks-'));
    const bytes = new Uint8Array(values.buffer);
    return saveCheckpoint(directory, {
      step: 1,
      model: { w: { dtype: 'f32', shape: [total], bytes } },
    });
  }

  it.each([
    [0, total],
    [0, 1],
    [total - 1, total],
    [262_143, 262_145],
    [100_000, 900_000],
    [7, 7],
  ])('from %i to %i has the bytes of these elements', async (start, stop) => {
    const { model } = await loadCheckpoint(await save());
    const stored = model.get('w');
    if (stored === undefined) throw new RangeError('no w');
    await using files = model.open();
    const { buffer } = await files.readChunks(stored, [elements(start, stop)]);
    expect(new Float32Array(buffer)).toEqual(values.slice(start, stop));
  });

  it('is checked and read without what lies further away', async () => {
    const folder = await save();
    const path = join(folder, 'model-00001-of-00001.safetensors');
    const file = await readFile(path);
    const damagedByte = file.byteLength - total * 4 + 3 * CHECKSUM_BYTES + 5;
    file[damagedByte] = (file[damagedByte] ?? 0) ^ 1;
    await writeFile(path, file);
    const { model } = await loadCheckpoint(folder);
    const stored = model.get('w');
    if (stored === undefined) throw new RangeError('no w');
    await using files = model.open();
    const perChecksum = CHECKSUM_BYTES / 4;
    for (const [start, stop] of [
      [0, 3 * perChecksum],
      [4 * perChecksum, total],
    ] as const) {
      const { buffer } = await files.readChunks(stored, [elements(start, stop)]);
      expect(new Float32Array(buffer)).toEqual(values.slice(start, stop));
    }
    await expect(
      files.readChunks(stored, [elements(3 * perChecksum - 1, 3 * perChecksum + 1)]),
    ).rejects.toThrow(
      /expected CRC-32 \d+ from byte \d+ on, found \d+\. Load an earlier checkpoint/,
    );
  });
});

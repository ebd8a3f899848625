import { type GgufBlockFormat, ggufBlockFormats, type Program } from '@shardwise/core/spec';
import { beforeAll, describe, expect, it } from 'vitest';
import { cpu } from '../../src/cpu.ts';
import type { CpuBackend } from '../../src/cpu-backend.ts';

/** A product of rows with a weight of `columns` rows of blocks. */
function programOf(
  format: GgufBlockFormat,
  rows: number,
  columns: number,
  blocks: number,
): Program {
  const depth = blocks * format.elements;
  return {
    inputs: [
      { shape: [rows, depth], dtype: 'f32' },
      { shape: [columns, blocks * format.bytes], dtype: 'u8' },
    ],
    instructions: [
      {
        op: 'blockedLinear',
        params: { format },
        inputs: [0, 1],
        shape: [rows, columns],
        dtype: 'f32',
      },
    ],
    outputs: [2],
    updates: [],
  };
}

describe('a product with a weight in blocks', () => {
  let backend: CpuBackend;
  beforeAll(async () => {
    backend = await cpu({ batchInvariant: true });
  });

  it('takes no memory for the numbers of the weight, with one row and with many', ({ skip }) => {
    skip(!backend.limits.native.has('blockedLinear'), 'no machine code decodes blocks');
    for (const format of Object.values(ggufBlockFormats)) {
      for (const rows of [1, 33]) {
        const program = programOf(format, rows, 1024, 3);
        expect(backend.temporaryBytes(program), `${format.name}, ${rows} rows`).toBe(0);
      }
    }
  });

  it('is decomposed where products are not ours', async () => {
    const others = await cpu({ products: 'onnxruntime' });
    expect(others.limits.native.has('blockedLinear')).toBe(false);
  });
});

import { fromData, setRank, tensor } from '@shardwise/core';
import { describe, expect, it } from 'vitest';
import { cpu } from '../../src/index.ts';

describe('products of rows in groups', () => {
  it('refuse counts of more rows than there are, or below 0', async () => {
    const device = await cpu();
    if (!device.limits.native.has('groupedMatmul')) return;
    setRank({ device });
    const product = (counts: readonly number[]): Promise<unknown> =>
      fromData(new Float32Array(12), [6, 2], 'f32')
        .groupedMatmul(fromData(new Float32Array(8), [2, 2, 2], 'f32'), tensor(counts, 'i32'))
        .data();
    await expect(product([3, 3])).resolves.toHaveLength(12);
    await expect(product([3, 4])).rejects.toThrow('counts of 3, 4, 7 in all');
    await expect(product([-1, 4])).rejects.toThrow('counts of -1, 4, 3 in all');
  });
});

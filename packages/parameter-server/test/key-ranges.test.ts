import { keyRanges, rowRange } from '@shardwise/parameter-server';
import { describe, expect, it } from 'vitest';

describe('ranges of keys', () => {
  it.each([1, 2, 3, 4, 5, 7, 16])('cover every key once on %i servers', (servers) => {
    const bytes = [40, 4, 4, 400, 12, 100, 4, 80];
    const ranges = keyRanges(bytes, servers);
    expect(ranges).toHaveLength(servers);
    const covered = ranges.flatMap(({ start, end }) =>
      Array.from({ length: end - start }, (_, index) => start + index),
    );
    expect(covered).toEqual(bytes.map((_, index) => index));
  });

  it('are as even as whole parameters can be', () => {
    const sizes = keyRanges([1, 1, 1, 1, 1, 1], 3).map(({ start, end }) => end - start);
    expect(sizes).toEqual([2, 2, 2]);
    expect(keyRanges([10, 1, 1, 1, 1], 2)[0]).toEqual({ start: 0, end: 1 });
  });

  it('are equal ranges of rows for tables, which cover every row once', () => {
    for (const servers of [1, 2, 3, 7]) {
      const ranges = Array.from({ length: servers }, (_, server) => rowRange(100, servers, server));
      expect(ranges[0]?.start).toBe(0);
      expect(ranges.at(-1)?.end).toBe(100);
      for (const [index, { end }] of ranges.slice(0, -1).entries()) {
        expect(ranges[index + 1]?.start).toBe(end);
      }
    }
  });
});

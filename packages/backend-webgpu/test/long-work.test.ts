import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { divide } from '../src/run/divide.ts';
import { WorkLimit } from '../src/device/work-limit.ts';

describe('groups of a dispatch that is divided', () => {
  const count = fc.integer({ min: 1, max: 7 });

  it('are each in one range, and ranges differ little in size', () => {
    fc.assert(
      fc.property(
        fc.tuple(count, count, count),
        fc.integer({ min: 1, max: 40 }),
        (groups, parts) => {
          const ranges = divide({ first: [0, 0, 0], groups }, parts);
          const all = groups[0] * groups[1] * groups[2];
          expect(ranges).toHaveLength(Math.min(parts, all));
          const seen = new Set<string>();
          for (const { first, groups: own } of ranges) {
            for (let x = 0; x < own[0]; x++)
              for (let y = 0; y < own[1]; y++)
                for (let z = 0; z < own[2]; z++)
                  seen.add([first[0] + x, first[1] + y, first[2] + z].join());
          }
          expect(seen.size).toBe(all);
          const sizes = ranges.map(({ groups: [x, y, z] }) => x * y * z);
          expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(all);
        },
      ),
    );
  });
});

describe('the work of a submission', () => {
  it('follows the speed that the device shows', () => {
    const limit = new WorkLimit(250);
    expect(limit.work).toBe(2.5e8);
    // The device does a billion units of work per millisecond.
    for (let i = 0; i < 20; i++) limit.note(limit.work, limit.work / 1e9);
    expect(limit.work).toBeGreaterThan(1.2e11);
    expect(limit.work).toBeLessThanOrEqual(2.5e11);
    for (let i = 0; i < 40; i++) limit.note(limit.work, limit.work / 1e5);
    expect(limit.work).toBeLessThan(5.1e7);
  });

  it('is changed little by one submission that waited, and not by small ones', () => {
    const limit = new WorkLimit(250);
    limit.note(2.5e8, 60_000);
    expect(limit.work).toBe(1.25e8);
    const before = limit.work;
    for (let i = 0; i < 100; i++) limit.note(1e6, 1000);
    expect(limit.work).toBe(before);
  });
});

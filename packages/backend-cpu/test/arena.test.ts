import { BackendError, ConfigError, OutOfMemoryError } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Arena, ALIGNMENT_BYTES } from '../src/memory/arena.ts';
import type { ArenaBuffer } from '../src/memory/arena-buffer.ts';

const pageBytes = 65_536;
const mebibyte = 2 ** 20;

function arena(byteOffset?: number, byteLength?: number): Arena {
  return new Arena(memoryOf(2), byteOffset, byteLength);
}

function memoryOf(pages: number): WebAssembly.Memory {
  return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
}

function disjoint(a: ArenaBuffer, b: ArenaBuffer): boolean {
  return a.byteOffset + a.byteLength <= b.byteOffset || b.byteOffset + b.byteLength <= a.byteOffset;
}

/** Operations that allocate a number of bytes, or free the n-th live buffer. */
const operations = fc.array(
  fc.oneof(
    fc.record({ alloc: fc.integer({ min: 0, max: 20_000 }) }),
    fc.record({ alloc: fc.integer({ min: mebibyte - 64, max: 2 * mebibyte }) }),
    fc.record({ free: fc.nat({ max: 50 }) }),
  ),
  { maxLength: 60 },
);

describe('arena', () => {
  it('hands out aligned ranges inside its region that do not overlap', () => {
    fc.assert(
      fc.property(operations, (list) => {
        const region = { start: 1000, end: 1000 + 4 * mebibyte };
        const under = new Arena(memoryOf(65), region.start, 4 * mebibyte);
        const live: ArenaBuffer[] = [];
        for (const operation of list) {
          if ('free' in operation) {
            const [buffer] = live.splice(operation.free % Math.max(1, live.length), 1);
            if (buffer !== undefined) under.free(buffer);
            continue;
          }
          try {
            const buffer = under.alloc(operation.alloc);
            expect(buffer.byteOffset % ALIGNMENT_BYTES).toBe(0);
            expect(buffer.byteOffset).toBeGreaterThanOrEqual(region.start);
            expect(buffer.byteOffset + buffer.byteLength).toBeLessThanOrEqual(region.end);
            expect(live.every((other) => disjoint(other, buffer))).toBe(true);
            live.push(buffer);
          } catch (error) {
            expect(error).toBeInstanceOf(OutOfMemoryError);
          }
        }
      }),
    );
  });

  it('is one free range again when everything has been freed, in any order', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 4000 }), { maxLength: 30 }),
        fc.infiniteStream(fc.nat()),
        (sizes, choices) => {
          const under = arena();
          const live = sizes.map((size) => under.alloc(size));
          while (live.length > 0) {
            const [buffer] = live.splice((choices.next().value ?? 0) % live.length, 1);
            if (buffer !== undefined) under.free(buffer);
          }
          expect(under.usage().bytesInUse).toBe(0);
          expect(under.alloc(2 * pageBytes).byteLength).toBe(2 * pageBytes);
        },
      ),
    );
  });

  it('takes the smallest range that is large enough for a large buffer', () => {
    const under = new Arena(memoryOf(256));
    const sizes = [4, 1, 2, 1].map((size) => size * mebibyte);
    const [large, , small] = sizes.map((size) => under.alloc(size));
    if (large === undefined || small === undefined) throw new Error();
    under.free(large);
    under.free(small);
    expect(under.alloc(2 * mebibyte).byteOffset).toBe(small.byteOffset);
    expect(under.alloc(4 * mebibyte).byteOffset).toBe(large.byteOffset);
  });

  it('has large buffers at its beginning and small ones at its end, each beside those of its kind', () => {
    const under = new Arena(memoryOf(256));
    const end = 256 * pageBytes;
    const offsets = [mebibyte, 64, 2 * mebibyte, mebibyte - 64].map(
      (size) => under.alloc(size).byteOffset,
    );
    expect(offsets).toEqual([0, end - 64, mebibyte, end - mebibyte]);
  });

  it('calls a sixteenth of itself large', () => {
    const under = arena();
    const part = (2 * pageBytes) / 16;
    expect(under.alloc(part).byteOffset).toBe(0);
    expect(under.alloc(part - 64).byteOffset).toBe(2 * pageBytes - part + 64);
  });

  it('has a large buffer where the one before it was, whatever small ones came in between and stay', () => {
    const under = new Arena(memoryOf(256));
    const first = under.alloc(3 * mebibyte);
    for (let step = 0; step < 20; step++) {
      const kept = under.alloc(2 * mebibyte);
      expect(kept.byteOffset).toBe(3 * mebibyte);
      under.free(kept);
      under.alloc(4096);
    }
    under.free(first);
    expect(under.alloc(5 * mebibyte).byteOffset).toBe(0);
  });

  it('takes any range where none is left at a buffer’s own end', () => {
    const under = arena();
    const [low, high] = [under.alloc(pageBytes), under.alloc(pageBytes)];
    under.free(low);
    expect(under.alloc(pageBytes).byteOffset).toBe(low.byteOffset);
    expect(() => under.alloc(64)).toThrow(OutOfMemoryError);
    under.free(high);
    expect(under.alloc(64).byteOffset).toBe(high.byteOffset + pageBytes - 64);
  });

  it('counts bytes in use and their peak in whole alignments', () => {
    const under = arena();
    const first = under.alloc(65);
    const second = under.alloc(1);
    under.free(first);
    expect(under.usage()).toEqual({
      bytesInUse: 64,
      peakBytes: 192,
      capacityBytes: 2 * pageBytes,
    });
    under.free(second);
    expect(under.usage().bytesInUse).toBe(0);
  });

  it('says what is in use when there is no room', () => {
    const under = arena();
    under.alloc(pageBytes);
    const ask = (): unknown => under.alloc(pageBytes + 1);
    expect(ask).toThrow(OutOfMemoryError);
    expect(ask).toThrow(
      'a buffer of 65537 bytes: 65536 of 131072 bytes are in use and the largest free range has 65536 bytes',
    );
  });

  it('refuses a second free, a free of a sub-buffer, and a buffer of another arena', () => {
    const under = arena();
    const buffer = under.alloc(128);
    expect(() => under.free(buffer.subBuffer(64, 64))).toThrow('sub-buffer');
    expect(() => arena().free(buffer)).toThrow('another backend');
    under.free(buffer);
    expect(() => under.free(buffer)).toThrow('it has been freed');
  });

  it('keeps sub-buffers inside their parent', () => {
    const buffer = arena().alloc(100);
    expect(buffer.subBuffer(90, 10).byteOffset).toBe(buffer.byteOffset + 90);
    expect(() => buffer.subBuffer(91, 10)).toThrow(BackendError);
    expect(() => buffer.subBuffer(-1, 10)).toThrow(BackendError);
  });

  it('refuses a region outside the memory', () => {
    expect(() => arena(0, 3 * pageBytes)).toThrow(ConfigError);
    expect(() => arena(2 * pageBytes, 0)).toThrow(ConfigError);
  });
});

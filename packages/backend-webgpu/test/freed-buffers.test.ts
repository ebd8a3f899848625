import { describe, expect, it } from 'vitest';
import { FreedBuffers } from '../src/device/freed-buffers.ts';

/** What is used of a buffer of the device. */
function bufferOf(size: number): GPUBuffer {
  return { size } as GPUBuffer;
}

describe('freed buffers', () => {
  it('are taken in the order in which they were first kept, whatever the order in which a step frees them', () => {
    const freed = new FreedBuffers();
    const buffers = [bufferOf(64), bufferOf(64), bufferOf(64)] as const;
    const [a, b, c] = buffers;
    for (const buffer of buffers) freed.keep(buffer);
    for (const order of [
      [c, a, b],
      [b, c, a],
      [a, b, c],
    ]) {
      expect([freed.take(64), freed.take(64), freed.take(64)]).toEqual([a, b, c]);
      for (const buffer of order) freed.keep(buffer);
    }
  });

  it('are reused once each, for allocations of their own size', () => {
    const freed = new FreedBuffers();
    const buffer = bufferOf(64);
    freed.keep(buffer);
    expect(freed.take(128)).toBeUndefined();
    expect(freed.take(64)).toBe(buffer);
    expect(freed.take(64)).toBeUndefined();
  });

  it('are kept up to 256 MiB in all', () => {
    const freed = new FreedBuffers();
    expect(freed.keep(bufferOf(200 << 20))).toBe(true);
    expect(freed.keep(bufferOf(100 << 20))).toBe(false);
    expect(freed.take(100 << 20)).toBeUndefined();
    expect(freed.take(200 << 20)).toBeDefined();
    expect(freed.keep(bufferOf(100 << 20))).toBe(true);
  });
});

import { OutOfMemoryError } from '@shardwise/core';
import { describe, expect, test } from 'vitest';
import { Allocation } from '../src/device/allocation.ts';
import { GpuBuffer } from '../src/device/gpu-buffer.ts';
import { SharedScratch } from '../src/device/shared-scratch.ts';

/** Memory of so many bytes, of which no byte is on a device. */
function memoryOf(capacityBytes: number) {
  const held = new Set<GpuBuffer>();
  const bytes = (): number => [...held].reduce((sum, { byteLength }) => sum + byteLength, 0);
  let peakBytes = 0;
  const alloc = (byteLength: number): GpuBuffer => {
    if (bytes() + byteLength > capacityBytes)
      throw new OutOfMemoryError({ asked: `${byteLength} bytes`, found: 'fewer', todo: 'less' });
    const buffer = new GpuBuffer(new Allocation(undefined), 0, byteLength, true);
    held.add(buffer);
    peakBytes = Math.max(peakBytes, bytes());
    return buffer;
  };
  return { alloc, free: (buffer: GpuBuffer) => held.delete(buffer), bytes, peak: () => peakBytes };
}

const sizesOf = (scratch: SharedScratch, count: number): number[] =>
  scratch.pages(count).map(({ byteLength }) => byteLength);

describe('the temporary values of programs', () => {
  test('share pages, which are as large as the largest of each', () => {
    const memory = memoryOf(1000);
    const scratch = new SharedScratch(memory);
    const [first, second] = [
      [100, 40],
      [60, 80, 16],
    ];
    scratch.reserve(first ?? []);
    scratch.reserve(second ?? []);
    expect(sizesOf(scratch, 3)).toEqual([100, 80, 16]);
    scratch.release(first ?? []);
    expect(sizesOf(scratch, 3)).toEqual([60, 80, 16]);
    scratch.release(second ?? []);
    expect(memory.bytes()).toBe(0);
  });

  test('never have a page beside the one that replaces it', () => {
    const memory = memoryOf(1000);
    const scratch = new SharedScratch(memory);
    for (const bytes of [100, 200, 300]) scratch.reserve([bytes]);
    expect(memory.peak()).toBe(300);
  });

  test('keep their pages if a program does not fit', () => {
    const scratch = new SharedScratch(memoryOf(150));
    scratch.reserve([100]);
    const [page] = scratch.pages(1);
    expect(() => scratch.reserve([100, 100])).toThrow(OutOfMemoryError);
    expect(scratch.pages(1)).toEqual([page]);
    expect(() => scratch.reserve([200])).toThrow(OutOfMemoryError);
    expect(sizesOf(scratch, 1)).toEqual([100]);
    expect(() => scratch.pages(2)).toThrow(/page 1/);
  });
});

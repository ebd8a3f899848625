import { describe, expect, it } from 'vitest';
import { Allocation } from '../src/device/allocation.ts';

describe('what the host wrote to an allocation', () => {
  const written = (): Allocation => {
    const allocation = new Allocation(undefined);
    allocation.note(0, 16, Int32Array.of(4, -2, 9, 0));
    allocation.note(32, 8, Int32Array.of(7, 8));
    return allocation;
  };

  it('has bounds, also of a part of it', () => {
    expect(written().bounds(0, 16)).toMatchObject({ least: -2, greatest: 9 });
    expect(written().bounds(4, 4)).toMatchObject({ least: -2, greatest: 9 });
    expect(written().bounds(32, 8)).toMatchObject({ least: 7, greatest: 8 });
  });

  it('has none where it was not written at once, or where something else has written since', () => {
    expect(written().bounds(8, 16)).toBeUndefined();
    const allocation = written();
    allocation.forget(12, 4);
    expect(allocation.bounds(0, 16)).toBeUndefined();
    expect(allocation.bounds(32, 8)).toBeDefined();
    allocation.note(32, 8, Int32Array.of(1, 2));
    expect(allocation.bounds(32, 8)).toMatchObject({ least: 1, greatest: 2 });
  });
});

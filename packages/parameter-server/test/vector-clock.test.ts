import { VectorClock } from '@shardwise/parameter-server';
import { describe, expect, it } from 'vitest';

describe('a vector clock', () => {
  it('moves its minimum only when the worker that is alone with the fewest steps makes one', () => {
    const clock = new VectorClock([
      [0, 0],
      [1, 0],
      [2, 0],
    ]);
    expect([clock.tick(0), clock.tick(0)]).toEqual([false, false]);
    expect([clock.of(0), clock.minimum]).toEqual([2, 0]);
    expect(clock.tick(1)).toBe(false);
    expect([clock.of(1), clock.minimum]).toEqual([1, 0]);
    expect(clock.tick(2)).toBe(true);
    expect(clock.minimum).toBe(1);
    expect(clock.lead(0)).toBe(1);
  });

  it('forgets a worker that leaves, and waits for it no more', () => {
    const clock = new VectorClock([
      [0, 5],
      [1, 2],
    ]);
    clock.remove(1);
    expect(clock.minimum).toBe(5);
    expect(clock.toJSON()).toEqual([[0, 5]]);
  });
});

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Wakefulness } from '../src/transports/tcp/wakefulness.ts';

let now = 0;
const turns: (() => void)[] = [];

beforeEach(() => {
  now = 0;
  turns.length = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  vi.stubGlobal('setImmediate', (turn: () => void) => turns.push(turn));
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

/** Turns the event loop every hundredth of a millisecond while it is kept awake. Returns the number of turns. */
function turnsUntilAsleep(): number {
  let count = 0;
  for (let turn = turns.shift(); turn !== undefined; turn = turns.shift()) {
    count += 1;
    now += 0.01;
    turn();
  }
  return count;
}

/** Makes `count` waits for nothing. Returns whether each one kept the event loop awake. */
function waitsInVain(wakefulness: Wakefulness, count: number): readonly boolean[] {
  return Array.from({ length: count }, () => {
    wakefulness.wait();
    return turnsUntilAsleep() > 0;
  });
}

test('the loop turns for a tenth of a millisecond after a wait, or an arrival', () => {
  const wakefulness = new Wakefulness();
  wakefulness.wait();
  now = 0.05;
  wakefulness.arrive();
  turnsUntilAsleep();
  expect(now).toBeGreaterThanOrEqual(0.15);
  expect(now).toBeLessThan(0.17);
});

test('waits in vain are slept through: one, three, seven, at last 63 for one that is not', () => {
  const wakefulness = new Wakefulness();
  const awake = waitsInVain(wakefulness, 300).flatMap((isAwake, wait) => (isAwake ? [wait] : []));
  expect(awake).toEqual([0, 2, 6, 14, 30, 62, 126, 190, 254]);
});

test('a message that comes in time brings the next waits back', () => {
  const wakefulness = new Wakefulness();
  waitsInVain(wakefulness, 300);
  let waits = 0;
  const isAnswered = (): boolean => {
    waits += 1;
    wakefulness.wait();
    const isAwake = turns.length > 0;
    wakefulness.arrive();
    turnsUntilAsleep();
    return isAwake;
  };
  while (!isAnswered());
  expect(waits).toBeLessThanOrEqual(64);
  expect(Array.from({ length: 10 }, isAnswered)).not.toContain(false);
});

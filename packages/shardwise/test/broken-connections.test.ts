import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  type Break,
  BrokenConnections,
  describeBreak,
} from '../src/launcher/members/broken-connections.ts';
import { MemberSlot } from '../src/launcher/members/member-slot.ts';
import type { BrokenMessage } from '../src/launcher/ranks/member-message.ts';

const never = new Promise<never>(() => undefined);

/** A rank with a number of its own, of which nothing more is heard. */
function slotOf(number: number): MemberSlot {
  const start = () => ({
    outcome: never,
    order: () => undefined,
    terminate: () => Promise.resolve(),
  });
  const listeners = { onMessage: vi.fn(), onMember: vi.fn(), onGone: vi.fn() };
  return new MemberSlot({ number, host: 0, start }, listeners);
}

const broken = (ranks: readonly number[], reason = 'it broke'): BrokenMessage => ({
  kind: 'broken',
  epoch: 0,
  ranks,
  reason,
});

/** Ranks 0, 1, 2 of a membership, which were started with other numbers. */
const members = [4, 2, 7].map(slotOf);
const [first, second, third] = members as [MemberSlot, MemberSlot, MemberSlot];

let found: Break[] = [];
let connections = new BrokenConnections(() => undefined);
beforeEach(() => {
  vi.useFakeTimers();
  found = [];
  connections = new BrokenConnections((each) => found.push(each));
});
afterEach(() => void vi.useRealTimers());

describe('a connection between ranks that are all there', () => {
  it('is known to be broken when all have said so, because ranks that have ended say nothing', () => {
    connections.report(first, broken([1]), members);
    connections.report(second, broken([0]), members);
    expect(found).toEqual([]);
    connections.report(third, broken([1], 'it was told'), members);
    expect(found).toEqual([{ unreached: [second, first], reason: 'it broke' }]);
    vi.runAllTimers();
    expect(found).toHaveLength(1);
  });

  it('is known to be broken a while after one has said so, because the others may be computing', () => {
    connections.report(third, broken([1]), members);
    vi.runAllTimers();
    expect(found).toEqual([{ unreached: [second], reason: 'it broke' }]);
  });

  it('does not count if the launcher learns meanwhile that one of them is lost', () => {
    connections.report(first, broken([1]), members);
    connections.forget();
    vi.runAllTimers();
    expect(found).toEqual([]);
  });

  it('is not reported by ranks that are no members', () => {
    connections.report(slotOf(9), broken([1]), members);
    vi.runAllTimers();
    expect(found).toEqual([]);
  });

  it('is described by the numbers that the ranks were started with', () => {
    expect(describeBreak({ unreached: [first], reason: 'it broke' })).toBe(
      'Rank 4 has not ended, but could not be reached: it broke',
    );
    expect(describeBreak({ unreached: [first, second], reason: 'it broke' })).toBe(
      'Ranks 4, 2 have not ended, but could not be reached: it broke',
    );
    expect(describeBreak({ unreached: [], reason: 'it broke' })).toBe(
      'Ranks could not reach each other: it broke',
    );
  });
});

describe('connections that break again and again', () => {
  const minute = 60_000;

  it('are blamed on the rank that was not reached most often', () => {
    const of = (...unreached: readonly MemberSlot[]): Break => ({ unreached, reason: 'it broke' });
    expect(connections.blame(of(first, second), 0)).toBeUndefined();
    expect(connections.blame(of(second, third), minute)).toBeUndefined();
    expect(connections.blame(of(first), 2 * minute)).toBeUndefined();
    expect(connections.blame(of(second, third), 3 * minute)).toEqual({ slot: second, count: 3 });
  });

  it('are blamed on the last of two that do not reach each other', () => {
    const pair = { unreached: [first, second], reason: 'it broke' };
    expect([0, 1, 2].map((time) => connections.blame(pair, time * minute)?.slot)).toEqual([
      undefined,
      undefined,
      first,
    ]);
  });

  it('are blamed on the one that most of the others do not reach, and not on those that it does not reach', () => {
    // Rank 1 is cut off from all others, and names the first one that it misses.
    const blames = [0, 1, 2].map((time) => {
      connections.report(first, broken([1]), members);
      connections.report(second, broken([0]), members);
      connections.report(third, broken([1]), members);
      const latest = found.at(-1);
      return latest && connections.blame(latest, time * minute);
    });
    expect(blames.map((blame) => blame?.slot)).toEqual([undefined, undefined, second]);
  });

  it('are not held against those that the one to blame could not reach', () => {
    const pair = { unreached: [first, second], reason: 'it broke' };
    const blames = [0, 1, 2].map((time) => connections.blame(pair, time * minute));
    expect(blames.at(-1)?.slot).toBe(first);
    const other = { unreached: [third, second], reason: 'it broke' };
    expect(connections.blame(other, 3 * minute)).toBeUndefined();
  });

  it('are blamed on nobody if the errors name nobody', () => {
    const none = { unreached: [], reason: 'it broke' };
    expect([0, 1, 2].map((time) => connections.blame(none, time * minute))).toEqual([
      undefined,
      undefined,
      { slot: undefined, count: 3 },
    ]);
  });

  it('are forgiven after ten minutes', () => {
    const one = { unreached: [first], reason: 'it broke' };
    const times = [0, 4, 9, 13, 22].map((time) => connections.blame(one, time * minute));
    expect(times.map((blame) => blame?.count)).toEqual([undefined, undefined, 3, 3, undefined]);
  });
});

import { describe, expect, it } from 'vitest';
import { type Candidate, chooseMembers, lackOf } from '../src/launcher/members/choose-members.ts';

const member = (number: number): Candidate => ({ number, phase: 'member', hasEntered: true });
const waits = (number: number): Candidate => ({ number, phase: 'ready', hasEntered: false });
const numbersOf = (candidates: readonly Candidate[], replicaSize: number): readonly number[] =>
  chooseMembers(candidates, replicaSize).map(({ number }) => number);

describe('the ranks that train together next', () => {
  it('are all of those that are there, if each has the whole state', () => {
    expect(numbersOf([member(0), waits(3), member(2)], 1)).toEqual([0, 2, 3]);
  });

  it('are whole replicas, also of ranks of different ones', () => {
    // Ranks 1 and 2 of replicas 0 and 1 are lost. What is left has both parts once.
    expect(numbersOf([member(0), member(3)], 2)).toEqual([0, 3]);
    expect(numbersOf([member(0), member(2), member(3), member(4)], 2)).toEqual([0, 3]);
    expect(numbersOf([0, 1, 2, 3, 5].map(member), 2)).toEqual([0, 1, 2, 3]);
  });

  it('are those that have the state, before others with the same part', () => {
    expect(numbersOf([waits(0), member(1), member(2)], 2)).toEqual([2, 1]);
  });

  it('are none if a part is lost', () => {
    expect(numbersOf([member(0), member(2)], 2)).toEqual([]);
    const needed = { min: 1, replicaSize: 2, haveEntered: true };
    expect(lackOf([member(0), member(2), waits(3)], needed)).toMatch(
      /^No rank that is left has one/,
    );
    expect(lackOf([member(0), member(3), waits(1)], needed)).toBeUndefined();
  });
});

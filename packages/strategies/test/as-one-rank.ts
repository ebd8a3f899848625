import { assertAllclose, type Tolerance } from '@shardwise/testing';
import { onRanks, type OnRanksOptions } from '@shardwise/testing/node';
import { expect } from 'vitest';

/** What a rank has trained. */
export interface Trained {
  readonly losses: readonly number[];
  /** The whole parameters and buffers at the end. */
  readonly state: Readonly<Record<string, readonly number[]>>;
}

/** Returns a function that trains as one rank, once for each input, or for each key of inputs. */
export function oncePerKey<Input, T>(
  train: (input: Input) => T | Promise<T>,
  options: OnRanksOptions = {},
  keyOf: (input: Input) => unknown = (input) => input,
): (input: Input) => Promise<T> {
  const known = new Map<unknown, Promise<readonly T[]>>();
  return async (input) => {
    const trained = known.get(keyOf(input)) ?? onRanks(1, () => train(input), options);
    known.set(keyOf(input), trained);
    return (await trained)[0] ?? expect.fail('one rank has trained nothing');
  };
}

/** Returns the means over ranks of lists that each of them has, such as the losses of its steps. */
export function meanOverRanks(ranks: readonly (readonly number[])[]): number[] {
  const [first = []] = ranks;
  return first.map(
    (_, at) => ranks.reduce((sum, values) => sum + (values[at] ?? Number.NaN), 0) / ranks.length,
  );
}

/** Expects that the losses of ranks are those of one rank in the mean, and that each has its state, with the same bits. */
export function expectAsOneRank(
  ranks: readonly Trained[],
  alone: Trained | undefined,
  losses: Tolerance,
  state: Tolerance = losses,
): void {
  const expected = alone ?? expect.fail('one rank has trained nothing');
  assertAllclose(meanOverRanks(ranks.map((rank) => rank.losses)), expected.losses, losses);
  expect(ranks).not.toHaveLength(0);
  for (const rank of ranks) {
    expect(rank.state).toEqual(ranks[0]?.state);
    expect(Object.keys(rank.state)).toEqual(Object.keys(expected.state));
    for (const [name, values] of Object.entries(expected.state)) {
      assertAllclose(rank.state[name] ?? [], values, state);
    }
  }
}

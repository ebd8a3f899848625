import * as option from '../base/option-rules.ts';
import { type Check, checkSavedData, exactly, list, nullable, object } from '../saved-data.ts';
import { MersenneTwister } from './mersenne-twister.ts';

/** A generator at one moment, as plain data that JSON keeps exactly. */
export type GeneratorState = {
  readonly version: 1;
  /** The seed in decimal, because it can exceed 2^53. */
  readonly seed: string;
  readonly words: number[];
  readonly position: number;
  /** The second value of a Box-Muller pair if only the first has been taken, else null. */
  readonly nextNormal: number | null;
};

export const checkGeneratorState: Check<GeneratorState> = object<GeneratorState>({
  version: exactly(1),
  seed: {
    fits: (value): value is string =>
      typeof value === 'string' && /^\d{1,20}$/.test(value) && BigInt(value) < 2n ** 64n,
    expected: 'the digits of a number of at most 64 bits',
  },
  words: list(option.integer(0, 0xffffffff), MersenneTwister.words, MersenneTwister.words),
  position: option.integer(0, MersenneTwister.words),
  nextNormal: nullable(option.number),
});

/** Throws ConfigError if `value` is not a generator's state. */
export function parseGeneratorState(value: unknown): GeneratorState {
  return checkSavedData(
    checkGeneratorState,
    value,
    'set the state of a random generator',
    'Pass what getState() returned, unchanged',
  );
}

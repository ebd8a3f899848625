import { describe, expect, test } from 'vitest';
import { checkOptions } from '../src/base/check-options.ts';
import { ConfigError } from '../src/spec/errors.ts';
import * as option from '../src/base/option-rules.ts';
import type { OptionRules } from '../src/base/option-rules.ts';

interface BakeOptions {
  readonly degrees: number;
  readonly topHeat?: boolean;
  readonly minutesLeft?: number;
  readonly mode?: 'fan' | 'grill';
  readonly onDone?: (minutes: number) => void;
  readonly oven?: object;
}

const rules: OptionRules<BakeOptions> = {
  degrees: option.required(option.positive),
  topHeat: option.flag,
  minutesLeft: option.count,
  mode: option.oneOf('fan', 'grill'),
  onDone: option.callback(),
  oven: option.object('an oven, as await heat()'),
};

/** Passes options without type checks, as plain JavaScript does. */
function bake(options: unknown): void {
  checkOptions('bake', options as BakeOptions, rules);
}

describe('options', () => {
  test('pass where each has a value that it may have; undefined counts as left out', () => {
    const all = { degrees: 200, topHeat: true, minutesLeft: 0, mode: 'fan', onDone: () => {} };
    expect(() => bake(all)).not.toThrow();
    expect(() => bake({ degrees: 180, topHeat: undefined, other: undefined })).not.toThrow();
  });

  test.each([
    [
      { degrees: 1, top_heat: true },
      'bake with the option top_heat: no option of this name. Write topHeat; ',
    ],
    [{ degrees: 1, TopHeat: true }, 'Write topHeat; the options are degrees, topHeat,'],
    [
      { degrees: 1, minutes: 1 },
      'bake with the option minutes: no option of this name. Write minutesLeft',
    ],
    [{ degree: 1 }, 'Write degrees; '],
    [
      { degrees: 1, colour: 'red' },
      'no option of this name. Use degrees, topHeat, minutesLeft, mode, onDone, oven',
    ],
    [{ degrees: 1, toString: 1 }, 'the option toString: no option of this name'],
    [{ degrees: 1, constructor: 1 }, 'the option constructor: no option of this name'],
    [
      { degrees: 1, topHeat: 'yes' },
      "bake with topHeat: 'yes': a value that is not true or false. Give true or false, or leave the option out",
    ],
    [
      { degrees: 1, oven: Promise.resolve({}) },
      'bake with oven: a Promise: a value that is not an oven, as await heat(). Give an oven',
    ],
    [{ degrees: 1, topHeat: 1 }, 'bake with topHeat: 1: a value that is not true or false'],
    [
      { degrees: '200' },
      "bake with degrees: '200': a value that is not a number above 0. Give a number above 0",
    ],
    [{ degrees: Number.NaN }, 'bake with degrees: NaN: a value that is not a number above 0'],
    [
      { degrees: 1, minutesLeft: 1.5 },
      'minutesLeft: 1.5: a value that is not a whole number from 0',
    ],
    [
      { degrees: 1, minutesLeft: null },
      'minutesLeft: null: a value that is not a whole number from 0',
    ],
    [{ degrees: 1, mode: 'Fan' }, "mode: 'Fan': a value that is not one of fan, grill"],
    [{ degrees: 1, onDone: [1, 2] }, 'onDone: [1, 2]: a value that is not a function'],
    [{ topHeat: true }, 'bake: no option degrees. Give degrees: a number above 0'],
    [
      200,
      'bake with 200 in the place of its options: no object of options by name. Write { degrees: … }; ',
    ],
    [[200], 'bake with [200] in the place of its options'],
    ['fan', "bake with 'fan' in the place of its options"],
    [null, 'bake with null in the place of its options'],
  ])('%j are refused, and it is said why', (options, message) => {
    expect(() => bake(options)).toThrow(ConfigError);
    expect(() => bake(options)).toThrow(message);
  });

  test('of which one has a name close to two of ours name the closer one', () => {
    const pair: OptionRules<{ bucketBytes?: number; batchBytes?: number }> = {
      bucketBytes: option.count,
      batchBytes: option.count,
    };
    const check = (name: string) => () => checkOptions('send', { [name]: 1 }, pair);
    expect(check('bucketByte')).toThrow('Write bucketBytes');
    expect(check('batchesBytes')).toThrow('Write batchBytes');
  });

  test('without a rule for one of them do not compile, nor with a rule for another type', () => {
    // @ts-expect-error: no rule for `lines`
    const incomplete: OptionRules<{ width?: number; lines?: number }> = { width: option.count };
    // @ts-expect-error: a flag is no number
    const mistyped: OptionRules<{ width?: number }> = { width: option.flag };
    // @ts-expect-error: `width` may not be left out
    const optional: OptionRules<{ width: number }> = { width: option.count };
    expect([incomplete, mistyped, optional]).toHaveLength(3);
  });
});

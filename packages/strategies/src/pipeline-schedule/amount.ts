import type { OptionRule } from '@shardwise/core/extend';

/** The rule for options that are times or bytes. */
export const amount: OptionRule<number> = {
  fits: (value): value is number =>
    typeof value === 'number' && Number.isFinite(value) && value >= 0,
  is: 'a finite number from 0',
};

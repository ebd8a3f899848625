import { it } from 'vitest';
import { expectUnchanged } from './strangers.ts';

it('a million random and mutated frames of strangers change nothing for the members', () => {
  expectUnchanged(2, 1_000_000);
});

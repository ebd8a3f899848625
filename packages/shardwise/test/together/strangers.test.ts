import { it } from 'vitest';
import { expectUnchanged } from './strangers.ts';

it('random and mutated frames of strangers change nothing for the members', () => {
  expectUnchanged(1, 3000);
});

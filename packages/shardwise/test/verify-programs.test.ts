import { expect, it } from 'vitest';
import { expectNothingFound } from './verify-programs.ts';

// The other seeds from 0 to 99 are those of the full and the slow test.
it('finds nothing in right programs: random models, strategies, losses and optimizers', async () => {
  await expectNothingFound(2, [0, 1, 5, 6, 10, 11]);
  expect.hasAssertions();
}, 150_000);

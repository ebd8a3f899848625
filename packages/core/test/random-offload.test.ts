import { expect, test } from 'vitest';
import { expectSameBits } from './random-offload.ts';

// The slow test has many more.
test('programs within a budget have the bits of the plain ones', async () => {
  const { offloaded } = await expectSameBits([3, 4]);
  expect(offloaded).toBeGreaterThan(0);
});

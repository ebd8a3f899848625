import { expect, test } from 'vitest';
import { expectSameBits } from './random-offload.ts';

test('programs within a budget have the bits of the plain ones, whatever is nested, waits and accumulates', async () => {
  const counts = await expectSameBits(Array.from({ length: 24 }, (_, index) => index + 1));
  expect(Math.min(...Object.values(counts))).toBeGreaterThan(0);
}, 1_200_000);

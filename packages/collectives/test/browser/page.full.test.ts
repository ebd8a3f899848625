import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { openPage, reasonWithoutBrowser } from '@shardwise/testing/node';
import { serveSources } from './serve-sources.ts';
import { valuesOf } from './page/messages.ts';

const SIZE = 3;
const ELEMENTS = 10_000;

const reports = z.array(
  z.object({
    transport: z.string(),
    reason: z.string(),
    answers: z.array(
      z.object({
        status: z.literal('fulfilled'),
        reduced: z.array(z.number()),
        gathered: z.array(z.number()),
      }),
    ),
  }),
);

/** The sums of all ranks' values, added in rank order. */
function expectedSums(): number[] {
  const sums = valuesOf(0, ELEMENTS);
  for (let rank = 1; rank < SIZE; rank++) {
    valuesOf(rank, ELEMENTS).forEach((value, index) => {
      sums[index] = (sums[index] ?? 0) + value;
    });
  }
  return [...sums];
}

const missing = reasonWithoutBrowser();
const title = 'workers of a page in a browser';

describe.skipIf(missing !== undefined)(
  missing === undefined ? title : `${title}: ${missing}`,
  () => {
    it.each([
      { isolated: true, transport: 'shared memory', reason: 'workers can share memory here' },
      { isolated: false, transport: 'ports', reason: 'the page is not isolated' },
    ])(
      'reduce over $transport with the bits of the specification',
      async ({ isolated, transport, reason }) => {
        await using server = await serveSources({ isolated });
        await using _page = openPage(server.url);
        const [chosen, overPorts] = reports.parse(await server.result);
        expect(chosen).toMatchObject({ transport, reason: expect.stringContaining(reason) });
        expect(overPorts).toMatchObject({ transport: 'ports' });
        const sums = expectedSums();
        for (const report of [chosen, overPorts]) {
          expect(report?.answers).toHaveLength(SIZE);
          for (const { reduced, gathered } of report?.answers ?? []) {
            expect(reduced).toEqual(sums);
            expect(gathered).toEqual([0, 1, 4]);
          }
        }
      },
    );
  },
);

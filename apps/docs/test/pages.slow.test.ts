import { expect, test } from 'vitest';
import {
  describeSite,
  focusFaults,
  jumpFaults,
  layoutFaults,
  pathsOf,
  phoneFaults,
  phoneWidth,
  violationsOf,
} from './site/describe-site.ts';

describeSite('all pages', (site) => {
  test.each(['written', 'generated'] as const)(
    'that are %s fit a phone, do not jump, load little, and have no violations that axe finds',
    async (pages) => {
      const found = await site.visit(pathsOf(pages), phoneWidth, phoneFaults);
      expect(found).toEqual([]);
    },
    600_000,
  );

  test('that are written do not jump on a wide screen, show what has the focus, and have no violations that axe finds', async () => {
    const found = await site.visit(pathsOf('written'), 1280, async (page) => [
      ...(await jumpFaults(page)),
      ...(await layoutFaults(page)),
      ...(await focusFaults(page)),
      ...(await violationsOf(page, 'light')),
    ]);
    expect(found).toEqual([]);
  }, 600_000);
});

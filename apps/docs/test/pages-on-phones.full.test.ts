import { expect, test } from 'vitest';
import {
  describeSite,
  jumpFaults,
  layoutFaults,
  pathsOf,
  scriptFaults,
  violationsOf,
} from './site/describe-site.ts';

describeSite('all pages on a phone', (site) => {
  test.each(['written', 'generated'] as const)(
    'that are %s load without errors, fit a phone of 360 px, do not jump, load little, and have no violations that axe finds',
    async (pages) => {
      const found = await site.visit(pathsOf(pages), 360, async (page) => [
        ...(await jumpFaults(page)),
        ...(await scriptFaults(page)),
        ...(await layoutFaults(page)),
        ...(await violationsOf(page, 'light')),
        ...(await violationsOf(page, 'dark')),
      ]);
      expect(found).toEqual([]);
    },
    400_000,
  );
});

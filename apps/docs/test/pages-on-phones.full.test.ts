import { expect, test } from 'vitest';
import { describeSite, pathsOf, phoneFaults, phoneWidth } from './site/describe-site.ts';

/**
 * Every n-th page of each kind is visited. Others of the written pages are visited on a wide screen, and one template
 * makes many generated ones. The slow test visits all pages.
 */
const every = { written: 4, generated: 25 } as const;

describeSite('pages on a phone', (site) => {
  test.each(['written', 'generated'] as const)(
    `that are %s load without errors, fit a phone of ${phoneWidth} px, do not jump, load little, and have no violations that axe finds`,
    async (pages) => {
      const paths = pathsOf(pages).filter((_, index) => index % every[pages] === 0);
      const found = await site.visit(paths, phoneWidth, phoneFaults);
      expect(paths.length).toBeGreaterThan(5);
      expect(found).toEqual([]);
    },
    400_000,
  );
});

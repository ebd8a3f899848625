import { expect, test } from 'vitest';
import { describeSite, layoutFaults, pathsOf, violationsOf } from './site/describe-site.ts';

describeSite('all pages in a browser', (site) => {
  test('load without errors, and fit a phone of 360 px', async () => {
    expect(await site.visit(pathsOf('all'), 360, layoutFaults)).toEqual([]);
  }, 400_000);

  test('have no violations that axe finds, in light and in dark', async () => {
    const found = await site.visit(pathsOf('all'), 1280, async (page) => [
      ...(await violationsOf(page, 'light')),
      ...(await violationsOf(page, 'dark')),
    ]);
    expect(found).toEqual([]);
  }, 600_000);
});

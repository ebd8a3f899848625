import { expect, test } from 'vitest';
import {
  describeSite,
  pathsOf,
  phoneFaults,
  phoneWidth,
  violationsOf,
} from './site/describe-site.ts';

describeSite('all pages', (site) => {
  test('that are generated fit a phone, do not jump, load little, and have no violations that axe finds', async () => {
    const found = await site.visit(pathsOf('generated'), phoneWidth, phoneFaults);
    expect(found).toEqual([]);
  }, 600_000);

  test('that are written have no violations that axe finds on a wide screen', async () => {
    const found = await site.visit(pathsOf('written'), 1280, (page) => violationsOf(page, 'light'));
    expect(found).toEqual([]);
  }, 600_000);
});

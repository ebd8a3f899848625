import { expect, test } from 'vitest';
import { describeSite } from './site/describe-site.ts';
import { rowsOf } from './site/rows-of.ts';

const moment = /^The ranks at this moment/;
const bytes = 'What a rank gets from others for attention';

describeSite('a sequence that ranks of a page share', (site) => {
  test('a ring: each rank has the blocks that its messages brought, computes as much, and receives what the formula says', async () => {
    const { page, problems } = await site.open('/explore/sequence');
    expect(await rowsOf(page, bytes)).toEqual([
      ['forward', '12 KiB', '–'],
      ['backward', '24 KiB', '–'],
    ]);
    const before = await page.locator('.explorer').boundingBox();
    await page.getByRole('button', { name: 'Run on ranks' }).click();
    await page.locator('.summary', { hasText: 'Moment 1 of 4, recorded.' }).waitFor();
    expect(await page.locator('.explorer').boundingBox()).toEqual(before);
    const said = (await page.locator('.said').textContent()) ?? '';
    expect(Number(/of one rank by ([\d.e+-]+) at most/.exec(said)?.[1])).toBeLessThan(1e-5);
    for (let hop = 1; hop < 4; hop++) {
      await page.getByRole('button', { name: 'Step', exact: true }).click();
      const rows = await rowsOf(page, moment);
      // The block has come from the rank before, whose own it is if it has passed one rank.
      const tokens = ['0–3, 28–31', '4–7, 24–27', '8–11, 20–23', '12–19'];
      expect(rows.map(([, own]) => own)).toEqual(tokens);
      expect(rows.map(([, , , keys]) => keys)).toEqual(
        tokens.map((_, rank) => tokens[(rank - hop + 4) % 4]),
      );
      expect(rows.map((row) => row.at(-1))).toEqual(['1056', '1056', '1056', '1056']);
    }
    expect(await page.locator('.summary').textContent()).toContain('1.00 times the mean');
    expect(await rowsOf(page, bytes)).toEqual([
      ['forward', '12 KiB', '12 KiB'],
      ['backward', '24 KiB', '24 KiB'],
    ]);
    await page.getByLabel('Order', { exact: true }).selectOption('contiguous');
    expect(await page.locator('.summary').textContent()).toContain('1.73 times the mean');
    expect(problems).toEqual([]);
    await page.close();
  });

  test.each(['allGather', 'ulysses', 'usp'])(
    '%s: the messages have the bytes of the formula',
    async (method) => {
      const { page, problems } = await site.open('/explore/sequence');
      await page.getByLabel('Method', { exact: true }).selectOption(method);
      await page.getByRole('button', { name: 'Run on ranks' }).click();
      await page.locator('.summary', { hasText: 'recorded.' }).waitFor();
      for (const [, formula, messages] of await rowsOf(page, bytes)) {
        expect(messages).toBe(formula);
      }
      expect(problems).toEqual([]);
      await page.close();
    },
  );
});

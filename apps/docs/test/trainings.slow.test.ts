import { expect, test } from 'vitest';
import { describeSite } from './site/describe-site.ts';
import { trainInPage } from './site/train-in-page.ts';

describeSite('long trainings in pages', (site) => {
  test('a transformer adds numbers that it has never seen', async () => {
    const { page, problems } = await site.open('/explore/addition');
    await trainInPage(page, { Ranks: '2' });
    const said = await page.getByText(/of sums that it has never seen are right/).textContent();
    expect(Number.parseFloat(said ?? '')).toBeGreaterThan(90);
    expect(problems).toEqual([]);
    await page.close();
  }, 300_000);
});

import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { describeExample } from './describe-example.ts';

const minutes = 60_000;

describeExample('the page of examples/browser', (open) => {
  const hasEnded = (page: Page): Promise<unknown> =>
    page.locator('#train:enabled').waitFor({ timeout: 4 * minutes });

  it(
    'learns more than pairs of bytes tell, by keyboard alone, on two ranks',
    { timeout: 5 * minutes },
    () =>
      open({ path: '', width: 1200 }, async (page) => {
        await page
          .locator('#text')
          .fill('the cat sat on the mat, the dog lay on the log. '.repeat(40));
        const pairs = Number(
          /([\d.]+) nats/.exec((await page.textContent('#text-facts')) ?? '')?.[1],
        );
        await page.locator('#steps').fill('150');
        await page.locator('#steps').press('Enter');
        await expect.poll(() => page.textContent('#status')).toContain('Training on 2 ranks');
        await hasEnded(page);
        expect(await page.textContent('#status')).toBe('Done.');
        expect(await page.textContent('#step')).toBe('150 / 150');
        expect(Number(await page.textContent('#loss'))).toBeLessThan(pairs);
        expect(await page.textContent('#sample')).toContain('after update 150');
        expect(await page.textContent('#where')).toContain('shared memory');
      }),
  );

  it('says who was killed, and can train again', { timeout: 5 * minutes }, () =>
    open({ path: '', width: 360 }, async (page) => {
      await page.locator('#steps').fill('5000');
      await page.locator('#train').click();
      await expect.poll(() => page.textContent('#step'), { timeout: minutes }).toContain('/ 5000');
      await page.getByRole('button', { name: 'Kill rank 1' }).click();
      await hasEnded(page);
      expect(await page.textContent('#status')).toBe('Rank 1 was killed.');
      const rows = await page.locator('#rank-list li span').allTextContents();
      expect(rows[0]).toMatch(/^Rank 0 failed: .* on rank 0: rank 1 of the world ended the group/);
      expect(rows[1]).toBe('Rank 1 was killed');
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);

      await page.locator('#steps').fill('2');
      await page.locator('#train').click();
      await expect.poll(() => page.textContent('#status'), { timeout: minutes }).toBe('Done.');
    }),
  );
});

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reasonWithoutBrowser, requireBrowser } from '@shardwise/testing/node';
import { chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { build } from 'vite';
import { repository } from '../support/documents.ts';
import { serveFolder } from './serve-folder.ts';

const reason = reasonWithoutBrowser();
const root = join(repository, 'examples', 'browser');
const minutes = 60_000;

describe.skipIf(reason !== undefined)(
  reason === undefined ? 'the page of examples/browser' : `the page of examples/browser: ${reason}`,
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'shardwise-example-'));
    beforeAll(async () => {
      await build({ root, logLevel: 'error', build: { outDir: folder, emptyOutDir: true } });
    });
    afterAll(() => rmSync(folder, { recursive: true, force: true }));

    async function inPage(width: number, body: (page: Page) => Promise<void>): Promise<void> {
      await using server = await serveFolder(folder, { isolated: true, tasks: [] });
      const browser = await chromium.launch({
        executablePath: requireBrowser(),
        args: ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-quic'],
      });
      try {
        const page = await browser.newPage({ viewport: { width, height: 740 } });
        const errors: string[] = [];
        page.on('pageerror', ({ message }) => errors.push(message));
        await page.goto(server.url);
        await body(page);
        expect(errors).toEqual([]);
      } finally {
        await browser.close();
      }
    }

    const hasEnded = (page: Page): Promise<unknown> =>
      page.locator('#train:enabled').waitFor({ timeout: 4 * minutes });

    it(
      'learns more than pairs of bytes tell, by keyboard alone, on two ranks',
      { timeout: 5 * minutes },
      () =>
        inPage(1200, async (page) => {
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
      inPage(360, async (page) => {
        await page.locator('#steps').fill('5000');
        await page.locator('#train').click();
        await expect
          .poll(() => page.textContent('#step'), { timeout: minutes })
          .toContain('/ 5000');
        await page.getByRole('button', { name: 'Kill rank 1' }).click();
        await hasEnded(page);
        expect(await page.textContent('#status')).toBe('Rank 1 was killed.');
        const rows = await page.locator('#rank-list li span').allTextContents();
        expect(rows[0]).toMatch(
          /^Rank 0 failed: .* on rank 0: rank 1 of the world ended the group/,
        );
        expect(rows[1]).toBe('Rank 1 was killed');
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);

        await page.locator('#steps').fill('2');
        await page.locator('#train').click();
        await expect.poll(() => page.textContent('#status'), { timeout: minutes }).toBe('Done.');
      }),
    );
  },
);

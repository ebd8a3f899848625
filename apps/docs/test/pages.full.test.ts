import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  describeSite,
  focusFaults,
  jumpFaults,
  layoutFaults,
  pathsOf,
  scriptFaults,
  violationsOf,
} from './site/describe-site.ts';
import { serveSite } from '../.vitepress/serve-site.ts';

describeSite('all pages in a browser', (site) => {
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

  test('that are written do the same on a wide screen, and show what has the focus', async () => {
    const found = await site.visit(pathsOf('written'), 1280, async (page) => [
      ...(await jumpFaults(page)),
      ...(await layoutFaults(page)),
      ...(await focusFaults(page)),
      ...(await violationsOf(page, 'light')),
    ]);
    expect(found).toEqual([]);
  }, 300_000);

  test('work below a path of a host that isolates no pages', async () => {
    const [folder, base] = [mkdtempSync(join(tmpdir(), 'below-')), '/shardwise/'];
    execFileSync('node', [join(import.meta.dirname, 'site/build-below.ts'), folder], {
      env: { ...process.env, SHARDWISE_DOCS_BASE: base },
      stdio: 'pipe',
    });
    await using below = await serveSite({ isolated: false, folder, base });
    const { page, problems } = await site.open(`${below.url}${base}learn/`);
    await page.waitForFunction(() => globalThis.crossOriginIsolated);
    await page.getByRole('link', { name: '6. Pipelines' }).first().click();
    await page.waitForURL(`${below.url}${base}learn/pipelines`);
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Paused: 1 of' }).waitFor();
    expect(problems).toEqual([]);
    await page.goto(`${below.url}${base}no-such-page`);
    await page.getByRole('link', { name: 'To the start of the site' }).click();
    await page.waitForURL(`${below.url}${base}`);
    await page.close();
  }, 300_000);
});

import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeSite, layoutFaults, pathsOf, violationsOf } from './site/describe-site.ts';
import { serveSite } from './site/serve-site.ts';

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

  test('work below a path of a host that isolates no pages', async () => {
    const [folder, base] = [mkdtempSync(join(tmpdir(), 'below-')), '/shardwise/'];
    execFileSync('npx', ['vitepress', 'build', '--outDir', folder], {
      cwd: join(import.meta.dirname, '..'),
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

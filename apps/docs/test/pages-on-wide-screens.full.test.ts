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
} from './site/describe-site.ts';
import { serveSite } from '../.vitepress/serve-site.ts';

describeSite('pages on a wide screen', (site) => {
  // Others are visited on a phone, and all of them by the slow test.
  const written = (): string[] => pathsOf('written').filter((_, index) => index % 4 === 1);

  test('that are written load without errors, do not jump, and show what has the focus', async () => {
    const found = await site.visit(written(), 1280, async (page) => [
      ...(await jumpFaults(page)),
      ...(await layoutFaults(page)),
      ...(await focusFaults(page)),
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

import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findBrowser, launchBrowser } from './site/browser.ts';
import { built, serveSite, type SiteServer } from './site/serve-site.ts';

const repository = join(import.meta.dirname, '../../..');
const executable = findBrowser();
const reason = executable === undefined ? ' (skipped: no Chromium, set SHARDWISE_BROWSER)' : '';

beforeAll(() => {
  execFileSync('npm', ['run', '-s', 'docs:build'], { cwd: repository, stdio: 'pipe' });
}, 240_000);

const pages = (): readonly string[] =>
  globSync('**/*.html', { cwd: built })
    .filter((path) => path !== '404.html')
    .map((path) => `/${path.replace(/(^|\/)index\.html$/, '$1').replace(/\.html$/, '')}`)
    .toSorted();

describe('the built site', () => {
  test('has every page as Markdown, too, and lists them in llms.txt', () => {
    const list = readFileSync(join(built, 'llms.txt'), 'utf8');
    const twins = [...list.matchAll(/\]\((\/[^)]+\.md)\)/g)].map(([, path = '']) => path);
    expect(twins.length).toBeGreaterThan(60);
    for (const twin of twins) expect(readFileSync(join(built, twin), 'utf8')).toMatch(/^# /);
  });

  test('tells its host to isolate pages', () => {
    const headers = readFileSync(join(built, '_headers'), 'utf8');
    expect(headers).toContain('Cross-Origin-Opener-Policy: same-origin');
    expect(headers).toContain('Cross-Origin-Embedder-Policy: require-corp');
  });
});

describe.skipIf(executable === undefined)(`in a browser${reason}`, () => {
  let browser: Browser;
  let site: SiteServer;

  beforeAll(async () => {
    site = await serveSite();
    browser = await launchBrowser(executable ?? '');
  });

  afterAll(async () => {
    await browser.close();
    await site[Symbol.asyncDispose]();
  });

  /** A page that has been opened, and what went wrong meanwhile. */
  async function open(path: string, width = 1280): Promise<{ page: Page; problems: string[] }> {
    const page = await browser.newPage({
      viewport: { width, height: 900 },
      reducedMotion: 'reduce',
    });
    const problems: string[] = [];
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') {
        problems.push(`${path}: ${message.text()}`);
      }
    });
    page.on('pageerror', (error) => problems.push(`${path}: ${error.message}`));
    await page.goto(site.url + path, { waitUntil: 'networkidle' });
    return { page, problems };
  }

  test('every page loads without errors, and fits a phone of 360 px', async () => {
    const found: string[] = [];
    for (const path of pages()) {
      const { page, problems } = await open(path, 360);
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      if (overflow > 0) problems.push(`${path}: ${overflow} px wider than the screen`);
      if ((await page.locator('h1').count()) !== 1) problems.push(`${path}: not one heading`);
      found.push(...problems);
      await page.close();
    }
    expect(found).toEqual([]);
  }, 400_000);

  test('axe finds no violations, in light and in dark', async () => {
    const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
    const found: unknown[] = [];
    const written = pages().filter((path) => !/^\/(reference\/api|how-it-works)\/./.test(path));
    for (const path of [...written, '/reference/api/strategies', '/how-it-works/architecture']) {
      const { page } = await open(path);
      for (const dark of [false, true]) {
        await page.evaluate((on) => document.documentElement.classList.toggle('dark', on), dark);
        await page.evaluate(axe);
        const violations = await page.evaluate(async () => {
          const { axe } = globalThis as unknown as {
            axe: {
              run: () => Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>;
            };
          };
          const result = await axe.run();
          return result.violations.map(({ id, nodes }) => ({
            id,
            nodes: nodes.slice(0, 3).map(({ html }) => html.slice(0, 200)),
          }));
        });
        if (violations.length > 0) found.push({ path, dark, violations });
      }
      await page.close();
    }
    expect(found).toEqual([]);
  }, 400_000);

  test('the first view of a page loads less than 150 KB of script', async () => {
    const { page } = await open('/guides/launch');
    const scripts = await page.evaluate(() =>
      performance
        .getEntriesByType('resource')
        .map(({ name }) => new URL(name).pathname)
        .filter((path) => path.endsWith('.js')),
    );
    const bytes = scripts
      .map((path) => gzipSync(readFileSync(join(built, path))).byteLength)
      .reduce((sum, each) => sum + each, 0);
    await page.close();
    expect(bytes).toBeLessThan(150_000);
  });

  test('a page that is not there searches for the words of its address', async () => {
    const page = await browser.newPage();
    await page.goto(`${site.url}/pipeline-schedules`, { waitUntil: 'networkidle' });
    await page.getByRole('link', { name: 'Pipeline schedules' }).first().waitFor();
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toContain('not here');
    await page.close();
  });

  test('search finds a name of the reference', async () => {
    const { page, problems } = await open('/');
    await page
      .getByRole('button', { name: /search/i })
      .first()
      .click();
    await page.getByRole('searchbox').fill('planRedistribution');
    await page.locator('.results a').first().waitFor();
    expect(await page.locator('.results').textContent()).toContain('planRedistribution');
    expect(problems).toEqual([]);
    await page.close();
  });

  test('explorers answer to their controls, by keys alone', async () => {
    const { page, problems } = await open('/explore/pipelines');
    const summary = page.locator('.explorer .summary');
    const before = await summary.textContent();
    await page.getByLabel('Schedule', { exact: true }).selectOption('zbv');
    expect(await summary.textContent()).not.toBe(before);
    await page.getByLabel('Microbatches').focus();
    await page.keyboard.press('ArrowRight');
    expect(await summary.textContent()).toContain('zbv');
    await page.goto(`${site.url}/explore/collectives`, { waitUntil: 'networkidle' });
    await page.getByRole('button', { name: 'Step' }).click();
    expect(await page.locator('.explorer caption').first().textContent()).toBe(
      'Messages of round 2',
    );
    expect(problems).toEqual([]);
    await page.close();
  });

  const trains = async (page: Page, ranks: string, strategy: string): Promise<string> => {
    await page.getByLabel('Ranks', { exact: true }).selectOption(ranks);
    await page.getByLabel('Strategy', { exact: true }).selectOption(strategy);
    await page.getByRole('button', { name: 'Train', exact: true }).click();
    const summary = page.locator('.summary', { hasText: /^Over/ });
    await summary.waitFor({ timeout: 120_000 });
    return /loss ([\d.e-]+)/.exec((await summary.textContent()) ?? '')?.[1] ?? '';
  };

  test('ranks train in a page: one, two and four lose alike, and FSDP as DDP', async () => {
    const { page, problems } = await open('/explore/training');
    const alone = Number(await trains(page, '1', 'ddp'));
    const two = Number(await trains(page, '2', 'ddp'));
    const sharded = Number(await trains(page, '2', 'fsdp'));
    const four = Number(await trains(page, '4', 'ddp'));
    expect(alone).toBeLessThan(0.05);
    for (const loss of [two, sharded, four]) expect(loss / alone).toBeCloseTo(1, 0);
    expect(problems).toEqual([]);
    await page.close();
  }, 400_000);

  test('a training pauses, steps, and ends at once', async () => {
    const { page } = await open('/explore/training');
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Paused: 1 of' }).waitFor();
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Paused: 2 of' }).waitFor();
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    expect(await page.locator('.summary').textContent()).toBe('Not started.');
    await page.close();
  });

  test('a rank that is killed is named by the others', async () => {
    const { page } = await open('/explore/training');
    await page.getByLabel('Ranks', { exact: true }).selectOption('3');
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Paused: 1 of' }).waitFor();
    await page.getByRole('button', { name: 'Kill rank 2' }).click();
    await page.getByText('rank 2 of the world ended the group').first().waitFor();
    await page.close();
  });

  test('every program of the playground prints in the page what it says that it prints', async () => {
    const { page, problems } = await open('/explore/playground');
    const program = page.getByLabel('Program', { exact: true }).first();
    const names = await program.locator('option').allTextContents();
    expect(names.length).toBeGreaterThan(15);
    for (const name of names) {
      await program.selectOption(name);
      await page.getByRole('button', { name: 'Run', exact: true }).click();
      await page.getByRole('button', { name: 'Run', exact: true }).waitFor({ timeout: 60_000 });
      const printed = await page.locator('.output').innerText();
      const source = readFileSync(join(import.meta.dirname, `../examples/${name}.ts`), 'utf8');
      for (const [, text = ''] of source.matchAll(/\/\/ prints (.*)$/gm)) {
        expect(printed, name).toContain(text.trim());
      }
    }
    expect(problems).toEqual([]);
    await page.close();
  }, 300_000);

  test('a program without an end is stopped at once, and the page answers meanwhile', async () => {
    const { page } = await open('/explore/playground');
    const editor = page.locator('.cm-content');
    await editor.fill("console.log('begins'); while (true) {}");
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('begins', { exact: true }).last().waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('Stopped.').waitFor();
    await page.close();
  });

  test('a program is shared by its link', async () => {
    const { page } = await open('/explore/playground');
    await page.locator('.cm-content').fill("console.log('by a link');");
    await page.getByRole('button', { name: 'Share' }).click();
    await page.waitForURL(/#code=/);
    const { page: other } = await open(new URL(page.url()).pathname + new URL(page.url()).hash);
    await other.getByRole('button', { name: 'Run', exact: true }).click();
    await other.locator('.output', { hasText: 'by a link' }).waitFor();
    await page.close();
    await other.close();
  });

  test('on a host that cannot isolate pages, ranks train over ports, and say so', async () => {
    await using plain = await serveSite({ isolated: false });
    const page = await browser.newPage();
    await page.goto(`${plain.url}/explore/training`, { waitUntil: 'networkidle' });
    await page.getByLabel('Ranks', { exact: true }).selectOption('2');
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Paused: 1 of' }).waitFor();
    expect(await page.locator('.setting').textContent()).toContain('by message ports');
    await page.close();
  });

  test('the benchmark measures WebAssembly', async () => {
    const { page, problems } = await open('/explore/benchmark');
    await page.getByRole('button', { name: 'Measure' }).click();
    await page.locator('.summary', { hasText: /^Done/ }).waitFor({ timeout: 60_000 });
    expect(await page.locator('.explorer tbody tr').count()).toBeGreaterThanOrEqual(3);
    expect(problems).toEqual([]);
    await page.close();
  });
});

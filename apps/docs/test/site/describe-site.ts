import { globSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { reasonWithoutBrowser, requireBrowser } from '@shardwise/testing/node';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { buildSite } from './build-site.ts';
import { built, serveSite, type SiteServer } from '../../.vitepress/serve-site.ts';

const flags = [
  '--headless=new',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
/** WebGPU computes on the CPU, by SwiftShader. */
const webGpuFlags = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'];
/** How long a test waits for something in a page. A busy machine takes many times as long as an idle one. */
const WAIT_MS = 100_000;
/** What Chromium says by itself where a page asks for a GPU and it has none. */
const NO_GPU = 'No available adapters.';

/** A page that is open, and what it has complained of meanwhile. */
export interface OpenedPage {
  readonly page: Page;
  readonly problems: string[];
}

/** The built site in a browser. */
export interface Site {
  readonly url: string;
  /** Opens a page of the site as a new visitor, or one of another site. */
  open(
    path: string,
    options?: { readonly width?: number; readonly serviceWorkers?: 'allow' | 'block' },
  ): Promise<OpenedPage>;
  /** Visits pages, one after another, and returns what they complain of, with what `look` finds in each. */
  visit(
    paths: readonly string[],
    width: number,
    look: (page: Page, path: string) => Promise<readonly string[]>,
  ): Promise<string[]>;
}

/** Paths of the site's pages: those that people wrote, or those that are made from the sources. */
export function pathsOf(pages: 'written' | 'generated'): string[] {
  const paths = globSync('**/*.html', { cwd: built })
    .filter((path) => path !== '404.html')
    .map((path) => `/${path.replace(/(^|\/)index\.html$/, '$1').replace(/\.html$/, '')}`)
    .toSorted();
  const isGenerated = (path: string): boolean => /^\/(reference\/api|how-it-works)\/./.test(path);
  return paths.filter((path) => isGenerated(path) === (pages === 'generated'));
}

/** Makes words of code plain text where an earlier word has their colours: axe looks at one of each, and not at thousands. */
function thinCode(): void {
  const seen = new Set<string | null>();
  for (const word of document.querySelectorAll('.shiki .line span')) {
    const colours = word.getAttribute('style');
    if (seen.has(colours)) word.replaceWith(word.textContent);
    seen.add(colours);
  }
  for (const line of document.querySelectorAll('.shiki .line:not(:has(*))')) {
    line.replaceWith(line.textContent);
  }
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What axe finds in a page in light, and in dark, where only colours differ. */
export async function violationsOf(page: Page, theme: 'light' | 'dark'): Promise<string[]> {
  await page.evaluate(
    (on) => document.documentElement.classList.toggle('dark', on),
    theme === 'dark',
  );
  if (!(await page.evaluate(() => 'axe' in globalThis))) {
    await page.evaluate(axe);
    await page.evaluate(thinCode);
  }
  const rules = theme === 'dark' ? { runOnly: ['color-contrast'] } : {};
  const found = await page.evaluate(
    async (options) => {
      const { axe: loaded } = globalThis as unknown as {
        axe: {
          run: (
            options: object,
          ) => Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>;
        };
      };
      const { violations } = await loaded.run(options);
      return violations.flatMap(({ id, nodes }) =>
        nodes.slice(0, 3).map(({ html }) => `${id}: ${html.slice(0, 200)}`),
      );
    },
    // What is right is not described.
    { ...rules, resultTypes: ['violations'] },
  );
  return found.map((violation) => `in ${theme}, ${violation}`);
}

/** What a page has wrong where its width is that of the window. */
export async function layoutFaults(page: Page): Promise<string[]> {
  const overflow = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  const headings = await page.locator('h1').count();
  return [
    ...(overflow > 0 ? [`${overflow} px wider than the screen`] : []),
    ...(headings === 1 ? [] : [`${headings} headings of the first level`]),
  ];
}

/** More than this of a page's layout has moved by itself, as browsers count it (Cumulative Layout Shift), is bad. */
const MOST_SHIFT = 0.1;

/** Whether what a page shows has moved by itself since it was opened. */
export async function jumpFaults(page: Page): Promise<string[]> {
  const shift = await page.evaluate(async () => {
    const entries = await new Promise<PerformanceEntry[]>((resolve) => {
      const observer = new PerformanceObserver((list) => resolve(list.getEntries()));
      observer.observe({ type: 'layout-shift', buffered: true });
      setTimeout(() => resolve([]), 100);
    });
    // What follows an input is not counted, and the types of TypeScript do not have these entries.
    const shifts = entries as unknown as {
      readonly value: number;
      readonly hadRecentInput: boolean;
    }[];
    return shifts
      .filter(({ hadRecentInput }) => !hadRecentInput)
      .reduce((sum, { value }) => sum + value, 0);
  });
  return shift > MOST_SHIFT ? [`its layout jumps by ${shift.toFixed(3)}`] : [];
}

const MOST_KEYS = 60;

/** What the Tab key comes to in a page's explorers and nobody sees that it is there. */
export async function focusFaults(page: Page): Promise<string[]> {
  const faults = new Set<string>();
  const first = page.locator('.explorer').first();
  if ((await first.count()) === 0) return [];
  await first.evaluate((explorer) => {
    explorer.setAttribute('tabindex', '-1');
    explorer.focus();
  });
  for (let key = 0; key < MOST_KEYS; key += 1) {
    await page.keyboard.press('Tab');
    const fault = await page.evaluate(() => {
      const { activeElement: element } = document;
      if (element === null || element.closest('.explorer') === null) return 'outside';
      // An editor draws what has the focus around its text.
      const seen = element.closest('.cm-editor') ?? element;
      const { outlineStyle, outlineWidth } = getComputedStyle(seen);
      const isSeen = outlineStyle !== 'none' && outlineWidth !== '0px';
      return isSeen ? '' : `no focus is seen on ${element.outerHTML.slice(0, 120)}`;
    });
    if (fault === 'outside') break;
    if (fault !== '') faults.add(fault);
  }
  return [...faults];
}

/** A page without an editor loads no more script than this in its first view, in bytes of gzip. */
const MOST_SCRIPT_BYTES = 150_000;

/** Whether a page has loaded more script than it may. */
async function scriptFaults(page: Page): Promise<string[]> {
  if ((await page.locator('.cm-editor').count()) > 0) return [];
  const scripts = await page.evaluate(() =>
    performance
      .getEntriesByType('resource')
      .map(({ name }) => new URL(name).pathname)
      .filter((path) => path.endsWith('.js')),
  );
  const bytes = [...new Set(scripts)].reduce((sum, path) => sum + gzipBytes(path), 0);
  return bytes > MOST_SCRIPT_BYTES
    ? [`${bytes} bytes of script before the reader does anything`]
    : [];
}

const sizes = new Map<string, number>();

function gzipBytes(path: string): number {
  const known = sizes.get(path) ?? gzipSync(readFileSync(join(built, path))).byteLength;
  sizes.set(path, known);
  return known;
}

/** The width of a small phone, in CSS pixels. */
export const phoneWidth = 360;

/** What a page has wrong on a phone. */
export async function phoneFaults(page: Page): Promise<string[]> {
  return [
    ...(await jumpFaults(page)),
    ...(await scriptFaults(page)),
    ...(await layoutFaults(page)),
    ...(await violationsOf(page, 'light')),
    ...(await violationsOf(page, 'dark')),
  ];
}

/** What a page complains of from now on, with its path. */
function problemsOf(page: Page): string[] {
  const problems: string[] = [];
  const add = (text: string): number => problems.push(`${new URL(page.url()).pathname}: ${text}`);
  page.on('console', (message) => {
    const [type, text] = [message.type(), message.text()];
    if ((type === 'error' || type === 'warning') && text !== NO_GPU) add(text);
  });
  page.on('pageerror', (error) => add(error.message));
  return problems;
}

/** Tests of the built site in the Chromium that is installed here; skipped, with the reason, where there is none. */
export function describeSite(
  title: string,
  tests: (site: Site) => void,
  { withWebGpu = false }: { readonly withWebGpu?: boolean } = {},
): void {
  const reason = reasonWithoutBrowser();
  const name = reason === undefined ? title : `${title}: ${reason}`;
  describe.skipIf(reason !== undefined)(name, { timeout: 2 * WAIT_MS }, () => {
    const opened = new AsyncDisposableStack();
    let browser: Browser;
    let visitor: BrowserContext;
    let server: SiteServer;

    beforeAll(async () => {
      await buildSite();
      server = opened.use(await serveSite());
      // Its sandbox refuses root.
      const sandbox = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
      const graphics = withWebGpu ? webGpuFlags : ['--disable-gpu'];
      const args = [...flags, ...graphics, ...sandbox];
      browser = await chromium.launch({ executablePath: requireBrowser(), args });
      opened.defer(() => browser.close());
      visitor = await browser.newContext({ reducedMotion: 'reduce' });
    }, 300_000);

    afterAll(() => opened.disposeAsync());

    const go = async (page: Page, path: string, width: number): Promise<void> => {
      await page.setViewportSize({ width, height: 900 });
      await page.goto(new URL(path, server.url).href, { waitUntil: 'networkidle' });
    };

    tests({
      get url() {
        return server.url;
      },
      open: async (path, { width = 1280, serviceWorkers = 'allow' } = {}) => {
        const page = await browser.newPage({ reducedMotion: 'reduce', serviceWorkers });
        page.setDefaultTimeout(WAIT_MS);
        const problems = problemsOf(page);
        await go(page, path, width);
        return { page, problems };
      },
      visit: async (paths, width, look) => {
        // The next page in the same tab, as a reader has it: a tab of its own takes as much time as the page.
        const page = await visitor.newPage();
        page.setDefaultTimeout(WAIT_MS);
        const found = problemsOf(page);
        for (const path of paths) {
          await go(page, path, width);
          const seen = await look(page, path);
          found.push(...seen.map((problem) => `${path}: ${problem}`));
        }
        await page.close();
        return found;
      },
    });
  });
}

import { existsSync, globSync, readFileSync } from 'node:fs';
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
/** Flags that make WebGPU compute on the CPU, by SwiftShader. */
const webGpuFlags = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'];
/** How long a test waits for something in a page. A busy machine takes many times as long as an idle one. */
const WAIT_MS = 100_000;
/** How many tabs visit pages. While one of them waits until its network is quiet, the others work. */
const TABS = 3;
const sources = join(import.meta.dirname, '../../pages');
/** What Chromium prints by itself if a page asks for a GPU and there is none. */
const NO_GPU = 'No available adapters.';

/** An open page, and its complaints so far. */
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
    options?: {
      readonly width?: number;
      readonly serviceWorkers?: 'allow' | 'block';
      /** Whether the visitor lets pages move by themselves. Default: false. */
      readonly motion?: boolean;
    },
  ): Promise<OpenedPage>;
  /** Visits pages, in a few tabs. Returns their complaints, together with the faults that `look` finds in each. */
  visit(
    paths: readonly string[],
    width: number,
    look: (page: Page, path: string) => Promise<readonly string[]>,
  ): Promise<string[]>;
}

/** The pages that describe exports, by the class that gives them their style. */
function isOfSignatures(path: string): boolean {
  const file = join(sources, `${path.slice(1)}${path.endsWith('/') ? 'index' : ''}.md`);
  return existsSync(file) && /^pageClass: signatures$/m.test(readFileSync(file, 'utf8'));
}

/** Returns the paths of the site's pages: those that people wrote, or those that are made from the sources. */
export function pathsOf(pages: 'written' | 'generated'): string[] {
  const paths = globSync('**/*.html', { cwd: built })
    .filter((path) => path !== '404.html')
    .map((path) => `/${path.replace(/(^|\/)index\.html$/, '$1').replace(/\.html$/, '')}`)
    .toSorted();
  const isGenerated = (path: string): boolean =>
    /^\/how-it-works\/./.test(path) || isOfSignatures(path);
  return paths.filter((path) => isGenerated(path) === (pages === 'generated'));
}

/**
 * Makes words of code plain text if an earlier word has the same colours. axe then checks one word of each kind instead
 * of thousands.
 */
function thinCode(): void {
  const seen = new Set<string>();
  for (const word of document.querySelectorAll('.shiki .line span')) {
    const colours = `${word.getAttribute('style')} ${word.className}`;
    if (seen.has(colours)) word.replaceWith(word.textContent);
    seen.add(colours);
  }
  for (const line of document.querySelectorAll('.shiki .line:not(:has(*))')) {
    line.replaceWith(line.textContent);
  }
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * Returns what axe finds in a page in the light or dark theme. In the dark theme it only checks colours, because
 * nothing else differs.
 */
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
    // Only violations are described.
    { ...rules, resultTypes: ['violations'] },
  );
  return found.map((violation) => `in ${theme}, ${violation}`);
}

/** Returns the faults of a page's layout at the width of the window. */
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

/** The greatest shift of a page's layout that is acceptable, as browsers measure it (Cumulative Layout Shift). */
const MOST_SHIFT = 0.1;

/** Returns a fault if contents of a page have moved by themselves since it was opened. */
export async function jumpFaults(page: Page): Promise<string[]> {
  const shift = await page.evaluate(async () => {
    const entries = await new Promise<PerformanceEntry[]>((resolve) => {
      const observer = new PerformanceObserver((list) => resolve(list.getEntries()));
      observer.observe({ type: 'layout-shift', buffered: true });
      setTimeout(() => resolve([]), 100);
    });
    // Shifts after an input are not counted. The types of TypeScript do not contain these entries.
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

/** Returns the elements of a page's explorers that the Tab key reaches without a visible focus. */
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
      // An editor draws the focus around its text.
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

/** The greatest size of the scripts that a page without an editor loads in its first view, in bytes of gzip. */
const MOST_SCRIPT_BYTES = 150_000;
/** What the build for tests has in addition: the words in which Vue complains of served HTML (SHARDWISE_DOCS_DETAILS). */
const DETAILS_BYTES = 3_600;

/** Returns a fault if a page has loaded more script than it may. */
async function scriptFaults(page: Page): Promise<string[]> {
  if ((await page.locator('.cm-editor').count()) > 0) return [];
  const scripts = await page.evaluate(() =>
    performance
      .getEntriesByType('resource')
      .map(({ name }) => new URL(name).pathname)
      .filter((path) => path.endsWith('.js')),
  );
  const bytes = [...new Set(scripts)].reduce((sum, path) => sum + gzipBytes(path), 0);
  return bytes > MOST_SCRIPT_BYTES + DETAILS_BYTES
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

/** Returns the faults of a page on a phone. */
export async function phoneFaults(page: Page): Promise<string[]> {
  return [
    ...(await jumpFaults(page)),
    ...(await scriptFaults(page)),
    ...(await layoutFaults(page)),
    ...(await violationsOf(page, 'light')),
    ...(await violationsOf(page, 'dark')),
  ];
}

/** Collects the complaints of a page from now on, with its path. */
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

/** Makes tests of the built site in the installed Chromium. If there is none, the tests are skipped with the reason. */
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
      // Chromium's sandbox does not work for root.
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
      // Explorers are inert until the page answers. The script of a page may run after the network is idle.
      await page.waitForFunction(() => document.querySelector('.explorer[inert]') === null);
    };

    tests({
      get url() {
        return server.url;
      },
      open: async (path, { width = 1280, serviceWorkers = 'allow', motion = false } = {}) => {
        const reducedMotion = motion ? 'no-preference' : 'reduce';
        const page = await browser.newPage({ reducedMotion, serviceWorkers });
        page.setDefaultTimeout(WAIT_MS);
        const problems = problemsOf(page);
        await go(page, path, width);
        return { page, problems };
      },
      visit: async (paths, width, look) => {
        const next = paths.values();
        const found: string[] = [];
        const visitInOneTab = async (): Promise<void> => {
          // The next page opens in the same tab, as for a reader. A new tab would take as much time as a page.
          const page = await visitor.newPage();
          page.setDefaultTimeout(WAIT_MS);
          const problems = problemsOf(page);
          for (const path of next) {
            await go(page, path, width);
            const seen = await look(page, path);
            found.push(...seen.map((problem) => `${path}: ${problem}`));
          }
          found.push(...problems);
          await page.close();
        };
        await Promise.all(Array.from({ length: TABS }, visitInOneTab));
        return found;
      },
    });
  });
}

import { cpu } from '@shardwise/backend-cpu';
import { setRank } from '@shardwise/core';
import { Generator } from '@shardwise/core/extend';
import { byteTokenizer } from '@shardwise/data';
import { GPT2LMHeadModel } from '@shardwise/models';
import { complete, Engine } from '@shardwise/serve';
import { listen, type ListeningServer, openAIApp } from '@shardwise/serve/node';
import { reasonWithoutBrowser, requireBrowser } from '@shardwise/testing/node';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const WAIT_MS = 60_000;
const missing = reasonWithoutBrowser();

describe.skipIf(missing !== undefined)(
  `The page of a server${missing === undefined ? '' : ` (${missing})`}`,
  () => {
    let engine: Engine;
    let server: ListeningServer;
    let browser: Browser;

    beforeAll(async () => {
      setRank({ device: await cpu() });
      const config = { vocabSize: 260, nPositions: 512, nEmbd: 16, nLayer: 1, nHead: 2 };
      const model = new GPT2LMHeadModel(
        { ...config, initializerRange: 0.5 },
        { generator: new Generator(5) },
      );
      engine = new Engine(model, byteTokenizer(), { cacheTokens: 2048 });
      const app = openAIApp({
        models: [{ id: 'small', engine, embed: null }],
        apiKeys: ['secret'],
        page: true,
      });
      server = await listen(app, { port: 0 });
      browser = await chromium.launch({
        executablePath: requireBrowser(),
        args: ['--headless=new', '--disable-quic', '--disable-sync', '--no-first-run'],
        chromiumSandbox: process.getuid?.() !== 0,
      });
    });

    afterAll(async () => {
      await browser.close();
      await server.close();
      await engine.dispose();
    });

    /** Opens the page with its key, and returns it with what it complains about. */
    async function open(
      width: number,
      colorScheme: 'light' | 'dark',
    ): Promise<{ page: Page; problems: string[] }> {
      const page = await browser.newPage({ viewport: { width, height: 800 }, colorScheme });
      page.setDefaultTimeout(WAIT_MS);
      const problems: string[] = [];
      page.on('pageerror', (error) => problems.push(error.message));
      page.on('console', (message) => {
        // The status 401 is what the page asks for its key by.
        const isExpected = message.text().includes('401');
        if (message.type() === 'error' && !isExpected) problems.push(message.text());
      });
      await page.goto(server.url);
      await page.getByLabel('API key').fill('secret');
      await page.getByRole('button', { name: 'Use it' }).click();
      await page.locator('#blocks i').nth(127).waitFor({ state: 'attached' });
      return { page, problems };
    }

    test('streams the answers of a chat, and shows the blocks of each sequence', async () => {
      const { page, problems } = await open(1280, 'light');
      await page.locator('#tokens').fill('8');
      await page.locator('#temperature').fill('0');
      await page.locator('#text').fill('Hello');
      await page.locator('#text').press('Enter');
      await page.getByText('8 tokens,').waitFor();
      const tokenizer = byteTokenizer();
      const prompt = tokenizer.encode('<s>Hello\n', { addSpecialTokens: false }).inputIds;
      const asked = { prompt, maxNewTokens: 8, temperature: 0 };
      const [expected] = await complete(engine.generate(asked));
      const answer = await page.locator('.message.assistant').first().textContent();
      expect(answer?.startsWith(expected?.text ?? '?')).toBe(true);

      // Requests of others are in the same cache, and their first blocks are the same.
      const abort = new AbortController();
      const others = [1, 2, 3].map((seed) =>
        complete(
          engine.generate({
            prompt: 'a'.repeat(64),
            maxNewTokens: 440,
            ignoreEos: true,
            seed,
            signal: abort.signal,
            tenant: 'other',
          }),
        ).catch(() => undefined),
      );
      await page.locator('#sequences li').nth(2).waitFor();
      await page.waitForFunction(() => document.querySelectorAll('#blocks .shared').length >= 1);
      const colours = await page.evaluate(
        () =>
          new Set(
            [...document.querySelectorAll('#blocks i[class*=s]')].map(({ className }) => className),
          ).size,
      );
      expect(colours).toBeGreaterThan(2);
      // The page asks for these numbers at times of its own, later than the blocks are drawn.
      await page.waitForFunction(() => document.querySelector('#running')?.textContent === '3');
      abort.abort();
      await Promise.all(others);
      await page.waitForFunction(() => document.querySelectorAll('#sequences li').length === 0);
      expect(problems).toEqual([]);
      await page.close();
    });

    test('stops an answer, which ends its request', async () => {
      const { page, problems } = await open(1280, 'dark');
      await page.locator('#mode').selectOption('text');
      await page.locator('#tokens').fill('500');
      await page.locator('#text').fill('Once');
      await page.getByRole('button', { name: 'Send' }).click();
      await page.locator('#sequences li').first().waitFor();
      await page.getByRole('button', { name: 'Stop' }).click();
      await engine.drain();
      expect(engine.statistics).toMatchObject({ running: 0, waiting: 0, usedBlocks: 0 });
      await page.locator('#text').fill('a'.repeat(600));
      await page.getByRole('button', { name: 'Send' }).click();
      await page.getByText('a model with 512 positions').waitFor();
      // The console tells of the status 400 by itself.
      expect(problems.filter((problem) => !problem.includes('400'))).toEqual([]);
      await page.close();
    });

    test.each([360, 1280])('is as wide as a window of %s pixels', async (width) => {
      const { page, problems } = await open(width, 'light');
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
      expect(problems).toEqual([]);
      await page.close();
    });

    test('loads nothing from elsewhere, and runs no script that is not its own', async () => {
      const response = await fetch(server.url);
      const policy = response.headers.get('content-security-policy') ?? '';
      expect(policy).toContain("default-src 'none'");
      expect(policy).not.toContain('unsafe');
      const page = await response.text();
      expect(page).not.toMatch(/https?:|<script(?![^>]* src=)|\son[a-z]+=|<style/);
      expect((await fetch(`${server.url}/state`)).status).toBe(401);
    });
  },
);

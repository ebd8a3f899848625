import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reasonWithoutBrowser, requireBrowser } from '@shardwise/testing/node';
import { chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { build } from 'vite';
import { repository } from '../support/documents.ts';
import { serveFolder } from './serve-folder.ts';

const root = join(repository, 'examples', 'browser');

export interface ExamplePage {
  readonly path: string;
  readonly width: number;
  /** Has WebGPU compute on the CPU, by SwiftShader. Default: the page has no WebGPU. */
  readonly withWebGpu?: boolean;
}

/** Opens a page of the example in a browser for `body`, which fails where the page has an error. */
export type OpenExample = (
  example: ExamplePage,
  body: (page: Page) => Promise<void>,
) => Promise<void>;

/** Tests of examples/browser, built, in the Chromium that is installed here; skipped, with the reason, where there is none. */
export function describeExample(title: string, tests: (open: OpenExample) => void): void {
  const reason = reasonWithoutBrowser();
  describe.skipIf(reason !== undefined)(
    reason === undefined ? title : `${title}: ${reason}`,
    () => {
      const folder = mkdtempSync(join(tmpdir(), 'shardwise-example-'));
      beforeAll(async () => {
        await build({ root, logLevel: 'error', build: { outDir: folder, emptyOutDir: true } });
      });
      afterAll(() => rmSync(folder, { recursive: true, force: true }));

      tests(async ({ path, width, withWebGpu = false }, body) => {
        await using server = await serveFolder(folder, { isolated: true, tasks: [] });
        const graphics = withWebGpu
          ? ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader']
          : ['--disable-gpu'];
        const browser = await chromium.launch({
          executablePath: requireBrowser(),
          args: ['--headless=new', '--no-sandbox', '--disable-quic', ...graphics],
        });
        try {
          const page = await browser.newPage({ viewport: { width, height: 740 } });
          // A busy machine takes many times as long as an idle one.
          page.setDefaultTimeout(100_000);
          const errors: string[] = [];
          page.on('pageerror', ({ message }) => errors.push(message));
          await page.goto(new URL(path, server.url).href);
          await body(page);
          expect(errors).toEqual([]);
        } finally {
          await browser.close();
        }
      });
    },
  );
}

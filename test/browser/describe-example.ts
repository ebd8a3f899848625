import { join } from 'node:path';
import { reasonWithoutBrowser, requireBrowser } from '@shardwise/testing/node';
import { chromium, type Page } from 'playwright-core';
import { beforeAll, describe, expect } from 'vitest';
import { build } from 'vite';
import { repository } from '../support/documents.ts';
import { oncePerRun } from '../support/once-per-run.ts';
import { serveFolder } from './serve-folder.ts';

const root = join(repository, 'examples', 'browser');

export interface ExamplePage {
  readonly path: string;
  readonly width: number;
  /** Makes WebGPU compute on the CPU with SwiftShader. Default: the page has no WebGPU. */
  readonly withWebGpu?: boolean;
}

/** Opens a page of the example in a browser and calls `body` with it. Fails if the page has an error. */
export type OpenExample = (
  example: ExamplePage,
  body: (page: Page) => Promise<void>,
) => Promise<void>;

/**
 * Runs tests of the built examples/browser in the installed Chromium. If there is none, the tests are skipped and the
 * reason is given.
 */
export function describeExample(title: string, tests: (open: OpenExample) => void): void {
  const reason = reasonWithoutBrowser();
  describe.skipIf(reason !== undefined)(
    reason === undefined ? title : `${title}: ${reason}`,
    () => {
      let folder = '';
      beforeAll(async () => {
        folder = await oncePerRun('browser-example', async (outDir) => {
          await build({ root, logLevel: 'error', build: { outDir, emptyOutDir: true } });
        });
      });

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

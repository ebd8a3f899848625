import { join } from 'node:path';
import { build } from 'vite';

/** Bundles a page as its author would, but from the sources instead of the packages' `dist`. */
export async function buildPage(root: string, outDir: string, input?: string): Promise<void> {
  await build({
    root,
    configFile: false,
    logLevel: 'error',
    resolve: { conditions: ['@shardwise/source', 'module', 'browser', 'production'] },
    // Ranks load their device with import(), which needs modules in workers.
    worker: { format: 'es' },
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2024',
      modulePreload: { polyfill: false },
      ...(input === undefined ? {} : { rolldownOptions: { input: join(root, input) } }),
    },
  });
}

import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'vite';
import example from '../../../examples/browser/vite.config.ts';

const root = join(import.meta.dirname, '../../../examples/browser');

/**
 * Builds the page that tests the visitor's device, as a folder of public files. It starts its own ranks, and shares no
 * code with the site.
 */
export async function buildContractPage(outDir: string): Promise<void> {
  await build({
    ...example,
    configFile: false,
    root,
    logLevel: 'error',
    build: {
      ...example.build,
      outDir,
      emptyOutDir: true,
      rolldownOptions: { input: join(root, 'contract.html') },
    },
  });
  await rename(join(outDir, 'contract.html'), join(outDir, 'index.html'));
}

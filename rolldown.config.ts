/**
 * Bundles what Node loads of a package into `dist/bundle`, for `rolldown -c ../../rolldown.config.ts` in the package's folder.
 * Node would otherwise open each module of `dist`, which takes most of the time of an import. Bundlers of pages get these
 * modules (the condition `default`), because they leave out modules that a page does not use.
 */
import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { defineConfig, type RolldownOptions } from 'rolldown';
import { z } from 'zod';

const manifestSchema = z.object({
  bin: z.record(z.string(), z.string()).optional(),
  exports: z.record(
    z.string(),
    z.union([
      z.string(),
      z.object({ '@shardwise/source': z.string(), node: z.string().optional() }),
    ]),
  ),
});

/** The texts by which a source names a file beside it that a thread or a process starts with. */
const STARTED = /new URL\(\s*`\.\/([\w-]+)\.\$\{extension\}`|\.replace\([^']*'([\w-]+)\$1'\)/g;

/** The entry points by the names of their bundles. Started files are among them, so they share the state of the package. */
function entryPoints(): Record<string, string> {
  const manifest = manifestSchema.parse(JSON.parse(readFileSync('package.json', 'utf8')));
  const exported = Object.values(manifest.exports).flatMap((target) => {
    if (typeof target === 'string') return [];
    const { '@shardwise/source': source, node } = target;
    if (node !== undefined) return [[basename(node, '.js'), source] as const];
    if (source.startsWith('./src/browser/')) return [];
    // Node would load its modules beside the bundles, and the state of the package twice.
    throw new Error(`package.json: the export of ${source} needs the condition "node"`);
  });
  const commands = manifest.bin === undefined ? [] : [['main', './src/cli/main.ts'] as const];
  const started = globSync('src/**/*.ts').flatMap((path) =>
    [...readFileSync(path, 'utf8').matchAll(STARTED)].map(([, name = '', other = '']) => {
      const file = name || other;
      return [file, join(dirname(path), `${file}.ts`)] as const;
    }),
  );
  return Object.fromEntries([...exported, ...commands, ...started]);
}

const config: RolldownOptions = defineConfig({
  input: entryPoints(),
  platform: 'node',
  // Other packages, also those of this repository, and modules of Node.
  external: /^(?:node:|@?[a-z][\w-]*(?:\/|$))/,
  // Some modules are loaded on demand by pages alone.
  checks: { ineffectiveDynamicImport: false },
  treeshake: { moduleSideEffects: false },
  output: {
    dir: 'dist/bundle',
    cleanDir: true,
    // All files lie in one folder, where started files are found beside the file that starts them.
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
    sourcemap: true,
    // The package has its sources beside dist.
    sourcemapExcludeSources: true,
    // Errors print the names of classes and functions.
    keepNames: true,
    // Declarations have them.
    comments: { jsdoc: false },
    // A file is opened for each chunk, so small functions that many modules print with are one.
    codeSplitting: {
      groups: [{ name: 'text', test: /src\/text\/(?:display-path|escape-html|format)\.ts$/ }],
    },
  },
});
export default config;

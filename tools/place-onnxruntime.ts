/**
 * Puts the libraries of onnxruntime-node into the packages of runtimes/, one for each platform, from where
 * backend-cpu takes that of this machine. Runs after `npm ci`, and before one of them is packed.
 */
import { copyFileSync, linkSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { z } from 'zod';

const manifestSchema = z.object({ version: z.string(), files: z.array(z.string()).optional() });
const root = dirname(import.meta.dirname);
const source = createRequire(import.meta.url).resolve('onnxruntime-node/package.json');
const { version } = manifestOf(source);

for (const platform of readdirSync(join(root, 'runtimes'))) {
  const folder = join(root, 'runtimes', platform);
  const manifest = manifestOf(join(folder, 'package.json'));
  if (manifest.version !== version) {
    throw new Error(
      `runtimes/${platform} is of version ${manifest.version}, onnxruntime-node of ${version}. ` +
        'Give all packages of runtimes/, and what backend-cpu depends on, that version',
    );
  }
  const libraries = join(dirname(source), 'bin', 'napi-v6', ...platform.split('-'));
  for (const file of manifest.files ?? []) place(join(libraries, file), join(folder, file));
}

/** A second name costs no space; where the file system has none, a copy does. */
function place(from: string, to: string): void {
  rmSync(to, { force: true });
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to);
  }
}

function manifestOf(path: string): z.infer<typeof manifestSchema> {
  return manifestSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
}

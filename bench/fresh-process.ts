import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import { median } from './summary.ts';

const run = promisify(execFile);
const SOURCE = '--conditions=@shardwise/source';
const IMPORTS = 5;

export interface FreshProcess {
  /** The time to import '@shardwise/core', as the median of several processes. */
  readonly importMs: number;
  readonly importedFrom: 'dist' | 'source';
  /** The time of the first training step with all its compilation, after modules are loaded and weights are drawn. */
  readonly firstStepMs: number;
}

/** Measures what only a process that has just started can tell. */
export async function freshProcess(): Promise<FreshProcess> {
  const built = existsSync(new URL('../packages/core/dist/bundle/index.js', import.meta.url));
  const importing = [
    ...(built ? [] : [SOURCE]),
    '--input-type=module',
    '--eval',
    "const start = performance.now(); await import('@shardwise/core'); console.log(performance.now() - start);",
  ];
  const imports: number[] = [];
  for (let index = 0; index < IMPORTS; index++) imports.push(await measure(importing));
  return {
    importMs: median(imports),
    importedFrom: built ? 'dist' : 'source',
    firstStepMs: await measure([
      SOURCE,
      fileURLToPath(new URL('./first-step.ts', import.meta.url)),
    ]),
  };
}

/** Runs Node on a program that prints one number. */
async function measure(args: readonly string[]): Promise<number> {
  const { stdout } = await run(process.execPath, args, {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  return z.coerce.number().positive().parse(stdout.trim());
}

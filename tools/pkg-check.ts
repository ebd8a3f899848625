/** Checks every publishable package with publint and are-the-types-wrong, as npm would pack it. */
import { spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';

const root = dirname(import.meta.dirname);
const bin = join(root, 'node_modules', '.bin');
const shell = process.platform === 'win32';

let failures = 0;

async function check(tool: string, name: string, args: readonly string[]): Promise<void> {
  const child = spawn(join(bin, tool), args, {
    cwd: root,
    shell,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject).on('close', resolve);
  });
  const [status, ...output] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  console.log(`${status === 0 ? 'ok    ' : 'FAILED'} ${tool} ${name}`);
  if (status === 0) return;
  failures += 1;
  console.log(...output);
}

const folders = globSync('packages/*/package.json', { cwd: root }).map(dirname).toSorted();
const next = folders.values();
/** Both tools pack a package in its folder, so they take turns there. */
const worker = async (): Promise<void> => {
  for (const folder of next) {
    const [name, dir] = [basename(folder), join(root, folder)];
    await check('publint', name, ['--strict', dir]);
    await check('attw', name, ['--pack', dir, '--profile', 'esm-only']);
  }
};
await Promise.all(Array.from({ length: availableParallelism() }, worker));
console.log(failures === 0 ? 'All packages are well formed.' : `${failures} check(s) failed.`);
process.exitCode = failures === 0 ? 0 : 1;

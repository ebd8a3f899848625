/** Checks every publishable package with publint and are-the-types-wrong, as npm would pack it. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const packagesDir = join(root, 'packages');
const bin = join(root, 'node_modules', '.bin');
const shell = process.platform === 'win32';

let failures = 0;
for (const name of readdirSync(packagesDir).toSorted()) {
  const dir = join(packagesDir, name);
  if (!existsSync(join(dir, 'package.json'))) continue;
  const checks: [string, string[]][] = [
    ['publint', ['--strict', dir]],
    ['attw', ['--pack', dir, '--profile', 'esm-only']],
  ];
  for (const [tool, args] of checks) {
    const options = { cwd: root, encoding: 'utf8', shell } as const;
    const { status, stdout, stderr } = spawnSync(join(bin, tool), args, options);
    console.log(`${status === 0 ? 'ok    ' : 'FAILED'} ${tool} ${name}`);
    if (status === 0) continue;
    failures += 1;
    console.log(stdout, stderr);
  }
}
console.log(failures === 0 ? 'All packages are well formed.' : `${failures} check(s) failed.`);
process.exitCode = failures === 0 ? 0 : 1;

import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { unpackedOnce } from './python-package.ts';

const run = promisify(execFile);

/** Returns the folder of a package of npm, unpacked, as `pythonPackage` does. Null if the package cannot be had. */
export async function nodePackage(name: string, version: string): Promise<string | null> {
  const folder = await unpackedOnce(`${name}-${version}`, async (target) => {
    await run('npm', ['pack', '--silent', '--pack-destination', target, `${name}@${version}`]);
    await run('tar', ['-xzf', join(target, `${name}-${version}.tgz`), '-C', target]);
  });
  return folder === null ? null : join(folder, 'package');
}

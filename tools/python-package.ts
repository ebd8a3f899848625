import { execFile } from 'node:child_process';
import { access, mkdir, rename } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * Returns the folder of a package of PyPI, unpacked. It is downloaded once, to the temporary files or to the folder that
 * SHARDWISE_PACKAGES names. Null if there is no Python with pip, or the package cannot be had.
 */
export async function pythonPackage(name: string, version: string): Promise<string | null> {
  return unpackedOnce(`${name}-${version}`, async (target) => {
    const options = ['download', '--quiet', '--no-deps', '--dest', target];
    await run('python3', ['-m', 'pip', ...options, `${name}==${version}`]);
    const wheel = `${name.replaceAll('-', '_')}-${version}-py3-none-any.whl`;
    await run('python3', ['-m', 'zipfile', '-e', join(target, wheel), target]);
  });
}

/** Returns the folder of this name of the packages that were downloaded. If it is not there, `fill` makes it. Null if that fails. */
export async function unpackedOnce(
  name: string,
  fill: (target: string) => Promise<void>,
): Promise<string | null> {
  const root = process.env['SHARDWISE_PACKAGES'] ?? join(tmpdir(), 'shardwise-packages');
  const folder = join(root, name);
  const isThere = await access(folder).then(
    () => true,
    () => false,
  );
  if (isThere) return folder;
  const partial = `${folder}.${process.pid}.partial`;
  try {
    await mkdir(partial, { recursive: true });
    await fill(partial);
  } catch {
    return null;
  }
  await rename(partial, folder);
  return folder;
}

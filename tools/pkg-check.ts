/** Checks every publishable package with publint and are-the-types-wrong, as npm packs it. */
import { spawn } from 'node:child_process';
import { globSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';

const root = dirname(import.meta.dirname);
const shell = process.platform === 'win32';

interface Ended {
  readonly status: number | null;
  /** The texts of both streams. */
  readonly output: readonly string[];
}

async function run(command: string, args: readonly string[]): Promise<Ended> {
  const child = spawn(command, args, { cwd: root, shell, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject).on('close', resolve);
  });
  const [status, ...output] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  return { status, output };
}

let failures = 0;

function tell(title: string, { status, output }: Ended): void {
  console.log(`${status === 0 ? 'ok    ' : 'FAILED'} ${title}`);
  if (status === 0) return;
  failures += 1;
  console.log(...output);
}

async function check(tool: string, tarball: string, args: readonly string[]): Promise<void> {
  tell(`${tool} ${basename(tarball)}`, await run(join(root, 'node_modules', '.bin', tool), args));
}

/** Packing takes longer than a check, so each package is packed once for both. */
const folder = mkdtempSync(join(tmpdir(), 'shardwise-packed-'));
try {
  const workspaces = globSync('packages/*/package.json', { cwd: root }).map(
    (path) => `--workspace=${dirname(path)}`,
  );
  tell('npm pack', await run('npm', ['pack', '--pack-destination', folder, ...workspaces]));
  const next = globSync('*.tgz', { cwd: folder }).toSorted().values();
  const worker = async (): Promise<void> => {
    for (const name of next) {
      const tarball = join(folder, name);
      await check('publint', tarball, ['--strict', tarball]);
      await check('attw', tarball, [tarball, '--profile', 'esm-only']);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log(failures === 0 ? 'All packages are well formed.' : `${failures} check(s) failed.`);
process.exitCode = failures === 0 ? 0 : 1;

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const repository = join(import.meta.dirname, '../../../..');

/**
 * Builds the site once in a run of tests. The files of tests share a temporary folder, in which it is marked as built.
 */
export async function buildSite(): Promise<void> {
  const mark = join(tmpdir(), 'site');
  const [done, failed] = [join(mark, 'done'), join(mark, 'failed')];
  try {
    mkdirSync(mark);
  } catch {
    // Another file of tests is building it.
    while (!existsSync(done) && !existsSync(failed)) await pause(200);
    if (existsSync(failed)) throw new Error('another file of tests could not build the site');
    return;
  }
  try {
    execFileSync('npm', ['run', '-s', 'docs:build'], {
      cwd: repository,
      env: { ...process.env, SHARDWISE_DOCS_DETAILS: '1' },
      stdio: 'pipe',
    });
    writeFileSync(done, '');
  } catch (error) {
    writeFileSync(failed, '');
    throw error;
  }
}

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { oncePerRun } from '../../../../test/support/once-per-run.ts';

const repository = join(import.meta.dirname, '../../../..');

/** Builds the site once in a run of tests. */
export async function buildSite(): Promise<void> {
  await oncePerRun('site', async () => {
    execFileSync('npm', ['run', '-s', 'docs:build'], {
      cwd: repository,
      env: { ...process.env, SHARDWISE_DOCS_DETAILS: '1' },
      stdio: 'pipe',
    });
  });
}

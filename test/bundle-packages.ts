import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

/** Bundles the packages that have changed, before the tests that use the bundles. They know it by SHARDWISE_BUILT. */
export default function bundlePackages(): void {
  execFileSync('npm', ['run', '-s', 'bundle', '--', '--output-logs=errors-only'], {
    cwd: join(import.meta.dirname, '..'),
    stdio: ['ignore', process.stderr, 'inherit'],
    shell: process.platform === 'win32',
  });
}

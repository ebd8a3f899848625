import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** All temporary files of a test run lie in one folder, which goes when the run ends. */
export default function makeTemporaryFolder(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'shardwise-tests-'));
  process.env['TMPDIR'] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}

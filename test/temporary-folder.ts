import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Puts all temporary files of a test run into one folder, which is deleted when the run ends. */
export default function makeTemporaryFolder(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'shardwise-tests-'));
  process.env['TMPDIR'] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { runShardwise } from '../../../test/support/run-shardwise.ts';

const folder = mkdtempSync(join(tmpdir(), 'ported-programs-'));
afterAll(() => rmSync(folder, { recursive: true }));

test.each([
  ['from-deepspeed', 'loss below 0.05 after 160 updates'],
  ['from-accelerate', '500 rows, error below 0.05'],
])('the program %s of the guides learns on two ranks', async (name, expected) => {
  const program = join(import.meta.dirname, `../examples/terminal/${name}.ts`);
  const args = ['run', '--plain', '--no-report', '--nproc', '2', program];
  const { exitCode, stdout, output } = await runShardwise(args, { cwd: folder });
  expect(exitCode, output).toBe(0);
  expect(stdout).toContain(expected);
});

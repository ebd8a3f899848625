import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { codeBlocks } from '../../../test/support/code-blocks.ts';
import { expectRun } from '../../../test/support/expect-run.ts';
import { runCommand } from '../../../test/support/run-command.ts';
import { runShardwise } from '../../../test/support/run-shardwise.ts';

const folder = join(import.meta.dirname, '..', 'examples');
const examples = readdirSync(folder).filter((name) => name.endsWith('.ts'));

test.each(examples)('%s prints what it says', async (name) => {
  const code = readFileSync(join(folder, name), 'utf8');
  const [block] = codeBlocks(name, `\`\`\`ts\n${code}\`\`\`\n`);
  if (block === undefined) throw new Error(`${name} has no code`);
  expect(block.prints.length).toBeGreaterThan(0);
  const run = await runCommand('node', [join(folder, name)], { cwd: folder, fromSource: false });
  expectRun(run, block);
  // These programs need a terminal, so pages show their recorded output.
  if (/from 'node:/.test(code)) {
    expect(run.stdout).toBe(readFileSync(join(folder, name.replace(/\.ts$/, '.txt')), 'utf8'));
  }
});

test('the first program of the playground runs on ranks that do not divide its batch', async () => {
  const cwd = await mkdtemp(join(tmpdir(), 'shardwise-playground-'));
  const args = ['run', '--plain', '--no-report', '--nproc', '3', join(folder, 'sine-on-ranks.ts')];
  const { exitCode, stdout, output } = await runShardwise(args, { cwd });
  expect(exitCode, output).toBe(0);
  expect(stdout.match(/fitted on 3 ranks: true/g)).toHaveLength(3);
});

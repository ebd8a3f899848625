import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { codeBlocks } from '../../../test/support/code-blocks.ts';
import { expectRun } from '../../../test/support/expect-run.ts';
import { runCommand } from '../../../test/support/run-command.ts';

const folder = join(import.meta.dirname, '..', 'examples');
const examples = readdirSync(folder).filter((name) => name.endsWith('.ts'));

test.each(examples)('%s prints what it says', async (name) => {
  const code = readFileSync(join(folder, name), 'utf8');
  const [block] = codeBlocks(name, `\`\`\`ts\n${code}\`\`\`\n`);
  if (block === undefined) throw new Error(`${name} has no code`);
  expect(block.prints.length).toBeGreaterThan(0);
  const run = await runCommand('node', [join(folder, name)], { cwd: folder });
  expectRun(run, block);
  // Programs that need a terminal: pages show what they have printed.
  if (/from 'node:/.test(code)) {
    expect(run.stdout).toBe(readFileSync(join(folder, name.replace(/\.ts$/, '.txt')), 'utf8'));
  }
});

// Mistakes in scripts that used to go unnoticed, as those of traps.test.ts.
import { mkdir, mkdtemp, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { repository } from './support/documents.ts';
import type { Ended } from './support/run-command.ts';
import { runShardwise } from './support/run-shardwise.ts';

/** Runs `shardwise run` with these files in an empty folder. `train.ts` is the script. */
async function runScript(
  files: Readonly<Record<string, string>>,
  options: readonly string[] = [],
): Promise<Ended> {
  const cwd = await mkdtemp(join(tmpdir(), 'shardwise-trap-'));
  await writeFile(join(cwd, 'package.json'), '{"type":"module"}');
  await mkdir(join(cwd, 'node_modules'));
  await symlink(
    join(repository, 'packages/shardwise'),
    join(cwd, 'node_modules/shardwise'),
    'junction',
  );
  for (const [name, text] of Object.entries(files)) await writeFile(join(cwd, name), text);
  return runShardwise(['run', ...options, 'train.ts'], { cwd });
}

describe('scripts', () => {
  it('a syntax error in the script is shown with file, line and column', async () => {
    const run = await runScript({ 'train.ts': 'const a = 1;\nconst b = (a + ;\n' });
    expect(run.exitCode).toBe(1);
    expect(run.stderr).toMatch(/SyntaxError: .*\n +at train\.ts:2:16\n +2 \| const b = \(a \+ ;\n/);
  });

  it('a mistake before the first step is not repeated by --max-restarts', async () => {
    const train = `import { ones } from 'shardwise'; console.log('begins'); ones([2]).matmul(ones([3]));`;
    const run = await runScript({ 'train.ts': train }, ['--max-restarts', '3']);
    expect(run.exitCode).toBe(1);
    expect(run.stdout.match(/begins/g)).toHaveLength(1);
    expect(run.stderr).toContain('Not started again');
  });

  it('report({ loss }) of a tensor is refused: the step would not be shown', async () => {
    const train = `import { init, ones } from 'shardwise';
const context = await init();
context.report({ step: 1, loss: ones([]).sum() });`;
    const run = await runScript({ 'train.ts': train });
    expect(run.stderr).toMatch(/to report loss: a Tensor\. Give a number: await ….item\(\)/);
  });

  it('a program that looks at one batch of a loader with workers ends', async () => {
    const files = {
      'train.ts': `import { data } from 'shardwise';
const dataset = { module: new URL('./data.ts', import.meta.url), length: 9 };
await new data.DataLoader({ dataset, workers: 1 })[Symbol.asyncIterator]().next();`,
      'data.ts': `const item = { data: Float32Array.of(1), shape: [1], dtype: 'f32' };
export default { length: 9, get: () => item };`,
    };
    expect((await runScript(files)).exitCode).toBe(0);
  });
});

import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { blocksOf, documents, fileNameOf, repository } from './support/documents.ts';
import { expectRun } from './support/expect-run.ts';
import { runCommand } from './support/run-command.ts';
import { runShardwise } from './support/run-shardwise.ts';

const blocks = documents.flatMap(blocksOf);
/** The programs that call init. `packages.full.test.ts` runs all programs on one rank. */
const ranksPrograms = blocks.filter(
  ({ kind, code }) => kind === 'program' && /= await (\w+\.)?init\(/.test(code),
);

/** The folder is in the repository, so that imports find the workspace packages. Git ignores it. */
const folder = join(repository, '.vitest', 'readme');
/** The folder in which programs run. It is deleted with everything that they write. */
const cwd = mkdtempSync(join(tmpdir(), 'shardwise-readme-'));

beforeAll(() => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const block of blocks) writeFileSync(join(folder, fileNameOf(block)), block.code);
  const compilerOptions = {
    noEmit: true,
    composite: false,
    declaration: false,
    declarationMap: false,
    isolatedDeclarations: false,
    rewriteRelativeImportExtensions: false,
    lib: ['es2025', 'esnext.disposable', 'esnext.sharedmemory', 'dom'],
  };
  const config = { extends: '../../tsconfig.base.json', compilerOptions, include: ['*.ts'] };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
});

afterAll(() => rmSync(cwd, { recursive: true, force: true }));

describe('the code of READMEs, CONTRIBUTING and docs', () => {
  test('type-checks', async () => {
    const { output, exitCode } = await runCommand('tsc', ['-p', folder], { cwd: repository });
    expect(output.trim()).toBe('');
    expect(exitCode).toBe(0);
  });

  test.each(ranksPrograms.map((block) => [block.name, block] as const))(
    '%s runs on two ranks',
    async (_, block) => {
      const script = join(folder, fileNameOf(block));
      expectRun(await runShardwise(['run', '--nproc', '2', script], { cwd }), block);
    },
  );
});

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { CodeBlock } from './support/code-blocks.ts';
import { blocksOf, documents, fileNameOf, repository } from './support/documents.ts';
import { expectRun } from './support/expect-run.ts';
import { installPackages } from './support/installed-packages.ts';
import { runCommand, type Ended } from './support/run-command.ts';

/** The blocks, without those that another document has, too. */
const blocks = documents
  .flatMap(blocksOf)
  .filter(({ code }, index, all) => all.findIndex((other) => other.code === code) === index);
const programs = blocks.filter(({ kind }) => kind === 'program');
const fragments = blocks.filter(({ kind }) => kind === 'fragment');
/** The programs that call init. */
const ranksPrograms = programs.filter(({ code }) => /= await (\w+\.)?init\(/.test(code));

/** The folder of the programs, in the project that has installed the packages. */
let folder: string;

function inFolder(command: string, ...args: readonly string[]): Promise<Ended> {
  return runCommand(command, args, { cwd: folder, fromSource: false });
}

function writeBlocks(place: string, written: readonly CodeBlock[], config: object): void {
  rmSync(place, { recursive: true, force: true });
  mkdirSync(place, { recursive: true });
  for (const block of written) writeFileSync(join(place, fileNameOf(block)), block.code);
  const files = written.map(fileNameOf);
  writeFileSync(join(place, 'tsconfig.json'), JSON.stringify({ ...config, files }));
}

beforeAll(async () => {
  const { project } = await installPackages();
  folder = join(project, 'readme');
  // These are the options that `tsc --init` writes, except that declarations are checked too.
  const compilerOptions = {
    module: 'nodenext',
    target: 'esnext',
    types: [],
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    verbatimModuleSyntax: true,
    isolatedModules: true,
    skipLibCheck: false,
    noEmit: true,
  };
  writeBlocks(folder, programs, { compilerOptions });
});

describe('the code of READMEs, CONTRIBUTING and docs', () => {
  test('type-checks with the declarations of the packages, without a special condition', async () => {
    const { exitCode, output } = await inFolder('tsc', '-p', '.');
    expect(output.trim()).toBe('');
    expect(exitCode).toBe(0);
  });

  test('type-checks where it is a fragment, with the types of Node', async () => {
    // This folder is in the repository, so that imports also find what only its tests depend on. Git ignores it.
    const place = join(repository, '.vitest', 'readme');
    const compilerOptions = {
      noEmit: true,
      composite: false,
      declaration: false,
      declarationMap: false,
      isolatedDeclarations: false,
      rewriteRelativeImportExtensions: false,
      // Imports find the declarations that are built, which are checked sooner than the sources.
      customConditions: [],
      lib: ['es2025', 'esnext.disposable', 'esnext.sharedmemory', 'dom'],
    };
    writeBlocks(place, fragments, { extends: '../../tsconfig.base.json', compilerOptions });
    const { output, exitCode } = await runCommand('tsc', ['-p', place], { cwd: repository });
    expect(output.trim()).toBe('');
    expect(exitCode).toBe(0);
  });

  test.each(programs.map((block) => [block.name, block] as const))('%s runs', async (_, block) => {
    expectRun(await inFolder('node', fileNameOf(block)), block);
  });

  test.each(ranksPrograms.map((block) => [block.name, block] as const))(
    '%s runs on two ranks',
    async (name, block) => {
      const run = await inFolder('npx', 'shardwise', 'run', '--nproc', '2', fileNameOf(block));
      expectRun(run, block);
      if (name.startsWith('README.md')) expect(run.stdout).toMatch(/^step 256 /m);
    },
  );
});

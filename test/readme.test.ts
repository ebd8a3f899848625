import { mkdtempSync, mkdirSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { codeBlocks } from './support/code-blocks.ts';
import { blocksOf, documents, fileNameOf, readDocument, repository } from './support/documents.ts';
import { expectRun } from './support/expect-run.ts';
import { runCommand } from './support/run-command.ts';

const blocks = documents.flatMap(blocksOf);
const programs = blocks.filter(({ kind }) => kind === 'program');
const ranksPrograms = programs.filter(({ code }) => /= await (\w+\.)?init\(/.test(code));

/** In the repository, so that imports find the workspace packages; git ignores it. */
const folder = join(repository, '.vitest', 'readme');
/** Where programs run: what they write goes away. */
const cwd = mkdtempSync(join(tmpdir(), 'shardwise-readme-'));
const launcher = join(repository, 'packages', 'shardwise', 'src', 'cli', 'main.ts');

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

  test.each(programs.map((block) => [block.name, block] as const))('%s runs', async (_, block) => {
    const run = await runCommand('node', [join(folder, fileNameOf(block))], { cwd });
    expectRun(run, block);
  });

  test.each(ranksPrograms.map((block) => [block.name, block] as const))(
    '%s runs on two ranks',
    async (_, block) => {
      const script = join(folder, fileNameOf(block));
      const run = await runCommand('node', [launcher, 'run', '--nproc', '2', script], { cwd });
      expectRun(run, block);
    },
  );
});

describe('documents', () => {
  test.each(documents)('%s links to files that exist', (path) => {
    const links = [...readDocument(path).matchAll(/\]\((?!https?:|#)([^)#]+)/g)];
    const missing = links
      .map(([, link = '']) => link)
      .filter((link) => !existsSync(join(repository, dirname(path), link)));
    const here = /https:\/\/github\.com\/shardwise\/shardwise\/(?:blob|tree)\/main\/([^)#\s]+)/g;
    const absent = [...readDocument(path).matchAll(here)]
      .map(([, link = '']) => link)
      .filter((link) => !existsSync(join(repository, link)));
    expect([...missing, ...absent]).toEqual([]);
  });

  test('of packages link to nothing outside of them, which is not installed with them', () => {
    const outside = documents
      .filter((path) => path.startsWith('packages/'))
      .flatMap((path) =>
        [...readDocument(path).matchAll(/\]\((\.\.[^)]*)/g)].map(([, link]) => [path, link]),
      );
    expect(outside).toEqual([]);
  });

  test('every package has a README with a program that runs', () => {
    const without = documents
      .filter((path) => path.startsWith('packages/'))
      .filter((path) => !blocksOf(path).some(({ kind }) => kind === 'program'));
    expect(without).toEqual([
      // It needs a device that not every machine has; its tests run where there is one.
      'packages/backend-webgpu/README.md',
      // A command; the project that it makes is tried in packages.full.test.ts.
      'packages/create-shardwise/README.md',
    ]);
  });
});

describe('codeBlocks', () => {
  test('tells programs from fragments and keeps their lines', () => {
    const markdown = 'Text\n\n```ts\nrun();\n```\n```sh\nls\n```\n```ts fragment\ncheck();\n```\n';
    expect(codeBlocks('a.md', markdown)).toEqual([
      { name: 'a.md:3', kind: 'program', code: 'run();\n', prints: [] },
      { name: 'a.md:9', kind: 'fragment', code: 'check();\n', prints: [] },
    ]);
  });

  test('puts the declarations of the comment above in front of a fragment', () => {
    const markdown =
      '<!-- ts\ndeclare const x: number;\n-->\n\n```ts fragment\nx.toFixed();\n```\n';
    expect(codeBlocks('a.md', markdown)).toEqual([
      {
        name: 'a.md:5',
        kind: 'fragment',
        code: 'declare const x: number;\nx.toFixed();\n',
        prints: [],
      },
    ]);
  });

  test('collects what a program says that it prints', () => {
    const markdown = '```ts\nconsole.log(1); // prints 1\nconsole.log(2); // prints 2\n```\n';
    expect(codeBlocks('a.md', markdown)[0]?.prints).toEqual(['1', '2']);
  });

  test('refuses a mark that it does not know', () => {
    expect(() => codeBlocks('a.md', '```ts fragmnet\nx\n```\n')).toThrow('a.md:1: ```ts fragmnet');
  });
});

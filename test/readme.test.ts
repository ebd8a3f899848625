import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { codeBlocks } from './support/code-blocks.ts';
import { blocksOf, documents, readDocument, repository } from './support/documents.ts';

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
      // This package needs a device that not every machine has. Its tests run where there is one.
      'packages/backend-webgpu/README.md',
      // This package is a command. created-project.full.test.ts tests the project that it creates.
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

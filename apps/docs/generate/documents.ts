import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, normalize, relative } from 'node:path';
import { SOURCES } from './markdown.ts';
import { repository } from './packages.ts';
import type { GeneratedPage } from './page.ts';

/** Returns the documents of the repository that become pages unchanged, each with the path of its page. */
function pagePaths(): ReadonlyMap<string, string> {
  const place = (path: string, folder: string): readonly [string, string] => [
    path,
    `how-it-works/${folder}${basename(path).toLowerCase()}`,
  ];
  return new Map(
    [
      place('ARCHITECTURE.md', ''),
      place('CONTRIBUTING.md', ''),
      place('bench/README.md', 'benchmarks-'),
      ...globSync('docs/*.md', { cwd: repository })
        .toSorted()
        .map((path) => place(path, '')),
      ...globSync('docs/decisions/*.md', { cwd: repository })
        .toSorted()
        .map((path) => place(path, 'decisions/')),
    ].filter(([path]) => existsSync(join(repository, path))),
  );
}

/**
 * Makes pages of the architecture, the guides of the repository and the decisions. Their links lead to other pages or
 * to the sources.
 */
export function documentPages(): readonly GeneratedPage[] {
  const pages = pagePaths();
  const documents = [...pages].map(([path, page]): GeneratedPage => {
    const text = readFileSync(join(repository, path), 'utf8')
      // Words after the language of a fence tell tests how to treat the block.
      .replaceAll(/^```ts fragment$/gm, '```ts')
      .replaceAll(/<!-- ts\n[^]*?-->\n*/g, '')
      // The site takes an image from where it lies in the repository.
      .replaceAll(/(!\[[^\]]*\])\((?!https?:)([^)#\s]+)\)/g, (_, shown: string, link: string) => {
        const folder = join('apps/docs/pages', dirname(page));
        return `${shown}(${relative(folder, join(dirname(path), link)).replaceAll('\\', '/')})`;
      })
      .replaceAll(
        /(?<!!\[[^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)/g,
        (_, link: string, hash = '') => {
          const target = normalize(join(dirname(path), link)).replace(/\/$/, '');
          const site = pages.get(target);
          return site === undefined ? `](${SOURCES}/${target}${hash})` : `](/${site}${hash})`;
        },
      );
    const [, title = basename(path)] = /^# (.*)$/m.exec(text) ?? [];
    const edit = `${SOURCES}/${path}`;
    return {
      path: page,
      title,
      text: `${escaped(text)}\n\n<small>Source: [${path}](${edit})</small>`,
    };
  });
  const decisions = documents.filter(({ path }) => path.includes('/decisions/'));
  const index: GeneratedPage = {
    path: 'how-it-works/decisions/index.md',
    title: 'Decisions',
    text: [
      '# Decisions',
      'Each page says what was decided, why, what was seen, and what was not done.',
      decisions.map(({ path, title }) => `- [${title}](/${path})`).join('\n'),
    ].join('\n\n'),
  };
  return [...documents, index];
}

/** Escapes what Vue would take for a tag or an expression, except in code. */
function escaped(markdown: string): string {
  return markdown
    .split(/(^```[^]*?^```$|`[^`\n]*`)/m)
    .map((part, index) =>
      index % 2 === 1
        ? part
        : part.replaceAll(/<(?=[A-Za-z])/g, '&lt;').replaceAll('{{', '&#123;&#123;'),
    )
    .join('');
}

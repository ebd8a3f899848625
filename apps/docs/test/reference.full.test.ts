import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readGroups } from '../generate/declarations.ts';
import { errorsPage } from '../generate/errors-page.ts';
import { entryPoints, repository } from '../generate/packages.ts';
import { Catalogue } from '../generate/reference/catalogue.ts';
import { referencePages } from '../generate/reference/reference-pages.ts';
import { sections } from '../generate/reference/topics.ts';

const groups = readGroups();
const catalogue = new Catalogue(groups);
const pages = new Map(referencePages(groups).map(({ path, text }) => [path, text]));
const all = [...pages.values()].join('\n');

/** Topics with more text are divided. `site.full.test.ts` limits the HTML of the built pages. */
const MOST_CHARACTERS = 25_000;

describe('the reference', () => {
  test('describes the exports of every entry point of every package', () => {
    const described = new Set(
      catalogue.pages.flatMap(({ items }) =>
        items.flatMap(({ doors }) => doors.map(({ specifier }) => specifier)),
      ),
    );
    const missing = entryPoints().filter(({ specifier }) => !described.has(specifier));
    expect(missing).toEqual([]);
  });

  test('describes every name that is exported, with a signature', () => {
    const missing = groups
      .flatMap(({ entries }) => entries)
      .filter(
        ({ name }) => !new RegExp(`^##+ (\\S+\\.)?${name.replace('$', '\\$')} \\{#`, 'm').test(all),
      );
    expect(missing.map(({ name }) => name)).toEqual([]);
  });

  test('describes every method of Tensor, each once, and lists them on one page', () => {
    const { members = [] } =
      groups.flatMap(({ entries }) => entries).find(({ name }) => name === 'Tensor') ?? {};
    const names = new Set(members.map(({ name }) => name).filter((name) => name !== 'constructor'));
    expect(names.size).toBeGreaterThan(150);
    const overview = pages.get('reference/tensor.md') ?? '';
    expect([...names].filter((name) => !overview.includes(`| [\`${name}\`](`))).toEqual([]);
    expect([...names].filter((name) => all.split(`## ${name} {#tensor-`).length !== 2)).toEqual([]);
    expect(pages.get('reference/tensor/element-wise.md')).toContain(
      'add(other: Tensor | number): Tensor',
    );
  });

  test('has pages that one can read: none is long, and none has the name of a folder', () => {
    const long = [...pages].filter(
      ([path, { length }]) =>
        length > MOST_CHARACTERS && !/^reference\/(names|types)\.md$/.test(path),
    );
    expect(long.map(([path]) => path)).toEqual([]);
    const topics = new Set(sections.flatMap(({ topics: each }) => each));
    const unnamed = catalogue.pages.filter(({ topic }) => !topics.has(topic));
    expect(unnamed.map(({ topic }) => topic.slug)).toEqual([]);
  });

  test('lists a page before the pages below it', () => {
    const order = catalogue.pages.map(({ topic }) => topic.slug);
    const isEarly = (slug: string): boolean =>
      order.slice(order.indexOf(slug)).some((other) => slug.startsWith(`${other}/`));
    expect(order.filter(isEarly)).toEqual([]);
    expect(order.indexOf('pipeline/costs')).toBe(order.indexOf('pipeline') + 1);
  });

  test('has no topic that nothing belongs to', () => {
    const used = new Set(catalogue.pages.map(({ topic }) => topic.slug));
    const unused = sections.flatMap(({ topics }) => topics).filter(({ slug }) => !used.has(slug));
    expect(unused.map(({ slug }) => slug)).toEqual([]);
  });

  test('says on each page what to import', () => {
    const without = catalogue.pages
      .filter(({ members }) => members.length === 0)
      .filter(({ topic }) => !pages.get(`reference/${topic.slug}.md`)?.includes('```ts\nimport '));
    expect(without.map(({ topic }) => topic.slug)).toEqual([]);
    expect(pages.get('reference/nn/linear.md')).toContain(
      "import { nn } from 'shardwise';\n```\n\n<small>Also exported by `@shardwise/core`",
    );
  });

  test('lists every page in its index, with one line about it', () => {
    const index = pages.get('reference/index.md') ?? '';
    const missing = catalogue.pages.filter(
      ({ topic }) => !index.includes(`[${topic.title}](./${topic.slug}.md) | ${topic.about} |`),
    );
    expect(missing.map(({ topic }) => topic.slug)).toEqual([]);
  });

  test('links to names that there are', () => {
    const broken = [...pages].flatMap(([path, text]) =>
      [...text.matchAll(/\]\((?:\/reference|\.)\/([\w/-]+\.md)#([\w-]+)\)/g)]
        .filter(([, page, name]) => !pages.get(`reference/${page}`)?.includes(`{#${name}}`))
        .map(([link]) => `${path}: ${link}`),
    );
    expect(broken).toEqual([]);
  });

  test('shows what a caller writes, and no bodies of functions', () => {
    expect(pages.get('reference/create.md')).toContain(
      "function zeros(shape: Shape, dtype: DType = 'f32'): Tensor\n```",
    );
    expect(pages.get('reference/nn/linear.md')).toContain(
      'constructor(inFeatures: number, outFeatures: number, options: LinearOptions = {});',
    );
  });

  test('says for every error code what causes it and what to do', () => {
    const { text } = errorsPage(groups);
    const source = readFileSync(join(repository, 'packages/core/src/spec/errors.ts'), 'utf8');
    const codes = [...source.matchAll(/code(?:: string)? = '(\w+)'/g)].map(([, code]) => code);
    expect(codes.filter((code) => !text.includes(`<br>\`${code}\` | `))).toEqual([]);
  });

  test('lists every environment variable that the sources read', () => {
    const page = readFileSync(
      join(import.meta.dirname, '../pages/reference/environment.md'),
      'utf8',
    );
    const read = globSync('packages/*/src/**/*.ts', { cwd: repository }).flatMap((path) =>
      [...readFileSync(join(repository, path), 'utf8').matchAll(/SHARDWISE_[A-Z_]+/g)].map(
        ([name]) => name,
      ),
    );
    expect([...new Set(read)].filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });
});

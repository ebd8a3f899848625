import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { apiPages, slugOf } from '../generate/api-pages.ts';
import { readGroups } from '../generate/declarations.ts';
import { errorsPage } from '../generate/errors-page.ts';
import { entryPoints, repository } from '../generate/packages.ts';

const groups = readGroups();
const pages = new Map(apiPages(groups).map(({ path, text }) => [path, text]));

describe('the reference', () => {
  test('has a page for every entry point of every package', () => {
    const missing = entryPoints().filter(
      ({ specifier }) =>
        !pages.has(`reference/api/${specifier.replace('@shardwise/', '').replaceAll('/', '-')}.md`),
    );
    expect(missing).toEqual([]);
  });

  test.each(groups.map((group) => [slugOf(group), group] as const))(
    '%s has every name that is exported, with a signature or a link to it',
    (slug, group) => {
      const text = pages.get(`reference/api/${slug}.md`) ?? '';
      const missing = group.entries.filter(
        ({ name }) => !text.includes(`### ${name} {#`) && !text.includes(`[\`${name}\`](./`),
      );
      expect(missing.map(({ name }) => name)).toEqual([]);
    },
  );

  test('links to names that there are', () => {
    const broken = [...pages].flatMap(([path, text]) =>
      [...text.matchAll(/\]\(\.\/([\w-]+\.md)#([\w-]+)\)/g)]
        .filter(([, page, name]) => !pages.get(`reference/api/${page}`)?.includes(`{#${name}}`))
        .map(([link]) => `${path}: ${link}`),
    );
    expect(broken).toEqual([]);
  });

  test('shows what a caller writes, and no bodies of functions', () => {
    const core = pages.get('reference/api/core.md') ?? '';
    expect(core).toContain("function zeros(shape: Shape, dtype: DType = 'f32'): Tensor\n```");
    expect(pages.get('reference/api/core-nn.md')).toContain(
      'constructor(inFeatures: number, outFeatures: number, options: LinearOptions = {});',
    );
  });

  test('says for every error code what causes it and what to do', () => {
    const { text } = errorsPage(groups);
    const source = readFileSync(join(repository, 'packages/core/src/spec/errors.ts'), 'utf8');
    const codes = [...source.matchAll(/code(?:: string)? = '(\w+)'/g)].map(([, code]) => code);
    expect(codes.filter((code) => !text.includes(`## ${code} {#`))).toEqual([]);
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

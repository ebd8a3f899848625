import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { built } from '../.vitepress/serve-site.ts';
import { buildSite } from './site/build-site.ts';

const course = join(import.meta.dirname, '../pages/learn');
const pages = globSync('*.md', { cwd: course })
  .filter((name) => name !== 'index.md')
  .map((name) => basename(name, '.md'));

beforeAll(buildSite, 300_000);

test.each(pages)('%s explains its idea with words, a drawing and something that runs', (page) => {
  const markdown = readFileSync(join(course, `${page}.md`), 'utf8');
  const words = markdown.split(/\s+/).length;
  expect(words).toBeGreaterThan(400);
  expect(words).toBeLessThan(800);
  expect(markdown).toMatch(/^<(?:Live|\w+Explorer)/m);
  const html = readFileSync(join(built, 'learn', `${page}.html`), 'utf8');
  expect(html).toMatch(/<figure class="drawing">\s*<svg[^>]* role="img" aria-label="[^"]{60,}"/);
  expect(html.match(/<h2 /g)?.length).toBeGreaterThan(2);
  expect(html).toContain(`/edit/main/apps/docs/pages/learn/${page}.md"`);
  for (const property of ['og:title', 'og:description', 'og:site_name']) {
    expect(html).toMatch(new RegExp(`<meta property="${property}" content="[^"]+"`));
  }
});

test('the Markdown of a page says what its drawing shows', () => {
  const copy = readFileSync(join(built, 'learn/all-reduce.md'), 'utf8');
  expect(copy).toContain('(On the site, a drawing stands here. Each position is added over all');
  expect(copy).not.toContain('@include');
});

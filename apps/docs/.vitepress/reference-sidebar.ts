import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DefaultTheme } from 'vitepress';
import { slugsInOrder } from '../generate/reference/topics.ts';

/** Returns the generated pages of the reference by the section that their front matter names. */
export function referenceSidebar(pages: string): DefaultTheme.SidebarItem[] {
  const found = globSync('reference/**/*.md', { cwd: pages }).flatMap((path) => {
    const text = readFileSync(join(pages, path), 'utf8');
    const field = (name: string): string | undefined =>
      new RegExp(`^${name}: "(.*)"$`, 'm').exec(text)?.[1];
    const [title, section] = [field('title'), field('section')];
    if (title === undefined || section === undefined) return [];
    const slug = path.replace(/^reference\/|\.md$/g, '');
    const at = slugsInOrder.indexOf(slug);
    return { title, section, slug, at: at === -1 ? slugsInOrder.length : at };
  });
  const bySection = Map.groupBy(
    found.toSorted((a, b) => a.at - b.at || a.slug.localeCompare(b.slug)),
    ({ section }) => section,
  );
  return [...bySection].map(([text, items]) => ({
    text,
    // The section opens by itself if one of its pages is shown.
    collapsed: true,
    items: items.map(({ title, slug }) => ({ text: title, link: `/reference/${slug}` })),
  }));
}

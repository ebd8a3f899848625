import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { built } from '../../.vitepress/serve-site.ts';

const ORIGIN = 'http://site';

/** `learn/index.html` is at `/learn/`. */
const pathOf = (file: string): string =>
  `/${file.replace(/(^|\/)index\.html$/, '$1').replace(/\.html$/, '')}`;

/** Links of the built pages to pages, files and anchors that there are not. */
export function linkFaults(): readonly string[] {
  const pages = new Map(
    globSync('**/*.html', { cwd: built }).map((file) => {
      const html = readFileSync(join(built, file), 'utf8');
      const ids = new Set([...html.matchAll(/\sid="([^"]+)"/g)].map(([, id = '']) => id));
      const links = new Set(
        [...html.matchAll(/<a\s[^>]*href="([^"]+)"/g)].map(([, to = '']) => to),
      );
      return [pathOf(file), { ids, links }] as const;
    }),
  );
  return [...pages].flatMap(([path, { links }]) =>
    [...links].flatMap((link) => {
      const { origin, pathname, hash } = new URL(link.replaceAll('&amp;', '&'), ORIGIN + path);
      if (origin !== ORIGIN) return [];
      const page = pages.get(decodeURIComponent(pathname));
      if (page === undefined) {
        const file = join(built, decodeURIComponent(pathname));
        const isFile = existsSync(file) && statSync(file).isFile();
        return isFile ? [] : [`${path} links to ${link}, which is no page`];
      }
      const id = decodeURIComponent(hash.slice(1));
      // What follows = is for the script of the page.
      const isFound = id === '' || id.includes('=') || page.ids.has(id);
      return isFound ? [] : [`${path} links to ${link}, which its page has no anchor for`];
    }),
  );
}

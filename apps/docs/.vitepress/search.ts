import type { DefaultTheme, MarkdownEnv, MarkdownRenderer } from 'vitepress';
import { keywordsOf } from './search-keywords.ts';

/** What the index has of a section of a page. */
interface Section {
  readonly id: string;
  readonly title: string;
  /** The titles of the sections around it. None for the beginning of a page. */
  readonly titles: readonly string[];
}

/**
 * How much more a hit counts by what it is: guides more than signatures, names that are exactly the searched word most, and
 * pages for authors and of decisions least. The site runs this function from its text, so it uses nothing outside of it.
 */
function boostOf(id: string, term: string, stored?: Readonly<Record<string, unknown>>): number {
  const { title: said, titles: above } = stored ?? {};
  const title = typeof said === 'string' ? said.toLowerCase() : '';
  const isName = (title === term || title.endsWith(`.${term}`)) && !id.endsWith('#_top');
  const place = /^\/(guides|learn)\//.test(id)
    ? 1.5
    : /^\/(how-it-works\/(decisions|benchmarks|contributing)|changelog)/.test(id)
      ? 0.3
      : /^\/reference\/(spec|extend|testing|wasm|names|generated|process-groups)/.test(id)
        ? 0.4
        : 1;
  const depth = Array.isArray(above) ? above.length : 0;
  // The beginning of a page counts more than its parts, and these more than types and methods.
  const part = depth === 0 ? 1.4 : depth === 1 ? 1 : 0.6;
  return place * part * (isName ? 4 : 1);
}

/** How the site searches: options of MiniSearch, for the index and for a search. */
export const miniSearch = {
  options: {
    fields: ['title', 'titles', 'text', 'keywords'],
    extractField: (section: Section, field: string): string =>
      field === 'keywords'
        ? keywordsOf(
            section.titles.length === 0 ? section.id.replace(/#.*$/, '') : section.id,
            section.title,
          )
        : (Reflect.get(section, field) as string),
  },
  searchOptions: {
    // A short word has other words beside it: "save" is not "same".
    fuzzy: (term: string): number => (term.length > 5 ? 0.2 : 0),
    prefix: (term: string): boolean => term.length > 2,
    boost: { title: 4, keywords: 4, text: 1, titles: 1 },
    boostDocument: boostOf,
  },
};

/** The text that the index has of a page. Signatures are left out, because their types would be found before guides. */
async function textOf(source: string, env: MarkdownEnv, md: MarkdownRenderer): Promise<string> {
  const isReference = /^pageClass: signatures$/m.test(source);
  // The index has no markup, and colours of code take most of the time of rendering.
  const { highlight } = md.options;
  md.set({ highlight: null });
  const rendering = md.renderAsync(
    isReference ? source.replaceAll(/^```ts\n[^]*?^```$/gm, '') : source,
    env,
  );
  // Pages are rendered by the same object. It has rendered this one already, and colours would be all that is awaited.
  md.set({ highlight });
  const html = await rendering;
  return env.frontmatter?.['search'] === false ? '' : html;
}

export const search: NonNullable<DefaultTheme.Config['search']> = {
  provider: 'local',
  options: { detailedView: true, _render: textOf, miniSearch },
};

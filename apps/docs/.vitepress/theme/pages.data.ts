import { createContentLoader } from 'vitepress';

/** A page of the site. */
export interface SitePage {
  readonly url: string;
  readonly title: string;
}

export declare const data: readonly SitePage[];

/** The addresses and titles of all pages: a few kilobytes, while the index of the search has a megabyte. */
export default createContentLoader('**/*.md', {
  includeSrc: true,
  transform: (pages): readonly SitePage[] =>
    pages.map(({ url, frontmatter, src = '' }) => {
      const title: unknown = frontmatter['title'];
      const [, heading = url] = /^# (.*?)(?: \{#.*)?$/m.exec(src) ?? [];
      return { url, title: typeof title === 'string' ? title : heading };
    }),
});

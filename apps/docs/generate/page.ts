/** A page of the site that a script writes. Git ignores it. */
export interface GeneratedPage {
  /** The path in the folder of pages. */
  readonly path: string;
  readonly title: string;
  /** One line for search engines and previews of links. */
  readonly about?: string;
  /** The heading of the sidebar under which the page is listed. */
  readonly section?: string;
  /** Whether the page has no list of its headings, so that its text has more room. Default: false. */
  readonly isWide?: boolean;
  /** The Markdown of the page, with its heading. */
  readonly text: string;
}

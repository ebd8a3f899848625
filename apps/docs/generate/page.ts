/** A page of the site that a script writes; git ignores it. */
export interface GeneratedPage {
  /** In the folder of pages. */
  readonly path: string;
  readonly title: string;
  /** Without a list of its headings, so that its text has more room. Default: with it. */
  readonly isWide?: boolean;
  /** Markdown, with its heading. */
  readonly text: string;
}

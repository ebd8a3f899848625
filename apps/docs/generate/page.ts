/** A page of the site that a script writes; git ignores it. */
export interface GeneratedPage {
  /** In the folder of pages. */
  readonly path: string;
  readonly title: string;
  /** Markdown, with its heading. */
  readonly text: string;
}

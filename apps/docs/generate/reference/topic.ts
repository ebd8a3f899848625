/** A page of the reference: what it is called, and which sources it describes. */
export interface Topic {
  /** The path of the page below `/reference/`. */
  readonly slug: string;
  readonly title: string;
  /** One line for the index, and the first line of the page. */
  readonly about: string;
  /**
   * What the page describes: exports and methods by the path of their source without `packages/` and `src/`, and their
   * name, such as `core/nn/linear.ts#Linear` or `core/nn/module.ts#Module.train`.
   */
  readonly from: RegExp;
}

/** Topics under one heading of the index and of the sidebar. */
export interface Section {
  readonly title: string;
  readonly topics: readonly Topic[];
}

export const topic = (slug: string, title: string, about: string, from: RegExp): Topic => ({
  slug,
  title,
  about,
  from,
});

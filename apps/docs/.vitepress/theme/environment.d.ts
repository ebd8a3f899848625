/// <reference types="vitepress/client" />

/** A module that VitePress makes. For each locale it contains a function that loads the search index. */
declare module '@localSearchIndex' {
  const indexes: Readonly<Record<string, () => Promise<{ readonly default: string }>>>;
  export default indexes;
}

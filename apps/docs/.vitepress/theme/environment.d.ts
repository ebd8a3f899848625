/// <reference types="vitepress/client" />

/** VitePress makes it: for each locale a function that loads its search index. */
declare module '@localSearchIndex' {
  const indexes: Readonly<Record<string, () => Promise<{ readonly default: string }>>>;
  export default indexes;
}

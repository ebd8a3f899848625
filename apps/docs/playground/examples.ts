const sources: Readonly<Record<string, string>> = import.meta.glob('../examples/*.ts', {
  query: '?raw',
  import: 'default',
  eager: true,
});

/** The programs of the guides that can run in a page, by name. */
export const examples: ReadonlyMap<string, string> = new Map(
  Object.entries(sources)
    .filter(([, source]) => !/from 'node:/.test(source))
    .map(([path, source]) => [path.replace(/^.*\/(.*)\.ts$/, '$1'), source] as const),
);

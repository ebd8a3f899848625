/**
 * Returns whether a pattern matches the path of a module. `*` stands for anything within one name, `**` for any number
 * of names. `blocks.*.up` matches the `up` of every member of `blocks`.
 */
export function matchesModule(pattern: string, path: string): boolean {
  const source = pattern
    .split('.')
    .map((part) =>
      part === '**'
        ? '(?:[^.]+(?:\\.[^.]+)*)?'
        : part.replaceAll(/[$()+?[\\\]^{|}]/g, '\\$&').replaceAll('*', '[^.]*'),
    )
    .join('\\.');
  return new RegExp(`^${source}$`).test(path);
}

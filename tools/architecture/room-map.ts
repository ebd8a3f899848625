import { inOrderOfImports, type PackageImports } from './import-edges.ts';
import { rooms } from './rooms.ts';

/** Returns a table of the folders of a package, the ones that import nothing first. */
export function mapOf({ name, folders, imports }: PackageImports): string {
  const described = rooms[name] ?? {};
  const listed = folders.filter((folder) => folder !== '');
  if (listed.length === 0) return '';
  const rows = inOrderOfImports(listed, (folder) => imports.get(folder) ?? []).map((folder) => {
    const imported = [...(imports.get(folder) ?? [])].filter((other) => other !== '').toSorted();
    const what = described[folder];
    if (what === undefined) {
      throw new RangeError(
        `packages/${name}/src/${folder} has no sentence in tools/architecture/rooms.ts`,
      );
    }
    return [`\`${folder}\``, what, imported.map((other) => `\`${other}\``).join(', ')];
  });
  for (const folder of Object.keys(described)) {
    if (!folders.includes(folder)) {
      throw new RangeError(
        `tools/architecture/rooms.ts describes packages/${name}/src/${folder}, which does not exist`,
      );
    }
  }
  return `## Map of the sources

The folders of \`src\`, each after those that it imports.

${table(['folder', 'what it contains', 'imports'], rows)}
`;
}

/** Formats a table of Markdown with columns of equal width, as the formatter of the repository does. */
function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = titles.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  );
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  return [line(titles), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join(
    '\n',
  );
}

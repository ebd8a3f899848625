import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/**
 * Matches the statements `import … from 'x'`, `export … from 'x'` and `import 'x'`, and `import('x')`. Statements that
 * only import types load nothing.
 */
const IMPORTS = [
  /^(?:import|export)\b(?!\s+type\b)[^;'"]*?\bfrom\s*['"](?<specifier>[^'"]+)['"]/gm,
  /^import\s*['"](?<specifier>[^'"]+)['"]/gm,
  /\bimport\(\s*['"](?<specifier>[^'"]+)['"]/g,
];

/** Everything that an entry point loads: its own files, and the packages and built-in modules outside them. */
export interface ImportGraph {
  readonly files: readonly string[];
  /** The files that import each outside specifier. */
  readonly outside: ReadonlyMap<string, readonly string[]>;
}

export function importGraph(entry: string): ImportGraph {
  const files = [entry];
  const outside = new Map<string, string[]>();
  for (const file of files) {
    const code = readFileSync(file, 'utf8');
    for (const { groups } of IMPORTS.flatMap((pattern) => [...code.matchAll(pattern)])) {
      const specifier = groups?.['specifier'] ?? '';
      if (!specifier.startsWith('.')) {
        outside.set(specifier, [...(outside.get(specifier) ?? []), file]);
        continue;
      }
      const target = resolve(dirname(file), specifier);
      if (!files.includes(target)) files.push(target);
    }
  }
  return { files, outside };
}

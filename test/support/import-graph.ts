import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/** `import … from 'x'`, `export … from 'x'` and `import 'x'` as statements, and `import('x')`; what only brings types is not loaded. */
const IMPORTS = [
  /^(?:import|export)\b(?!\s+type\b)[^;'"]*?\bfrom\s*['"](?<specifier>[^'"]+)['"]/gm,
  /^import\s*['"](?<specifier>[^'"]+)['"]/gm,
  /\bimport\(\s*['"](?<specifier>[^'"]+)['"]/g,
];

/** All that an entry point loads: its own files, and the packages and built-in modules outside. */
export interface ImportGraph {
  readonly files: readonly string[];
  /** A specifier, and the files that name it. */
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

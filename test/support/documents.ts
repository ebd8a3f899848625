import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { codeBlocks, type CodeBlock } from './code-blocks.ts';

export const repository: string = dirname(dirname(import.meta.dirname));

/** Documents whose code is checked, by their paths in the repository. */
export const documents: readonly string[] = [
  'README.md',
  'CONTRIBUTING.md',
  ...globSync('docs/*.md', { cwd: repository }).toSorted(),
  ...globSync('packages/*/README.md', { cwd: repository }).toSorted(),
];

export function readDocument(path: string): string {
  return readFileSync(join(repository, path), 'utf8');
}

export function blocksOf(path: string): readonly CodeBlock[] {
  return codeBlocks(path, readDocument(path));
}

/** A file for each block: `packages-core-README-12.ts` for the block at line 12 of that README. */
export function fileNameOf(block: CodeBlock): string {
  return `${block.name.replace(/\.md:/, '-').replaceAll(/[^\w-]/g, '-')}.ts`;
}

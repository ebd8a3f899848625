import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { codeBlocks, type CodeBlock } from './code-blocks.ts';

export const repository: string = dirname(dirname(import.meta.dirname));

/** The paths in the repository of the documents whose code is checked. */
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

/** Returns a file name for each block: `packages-core-README-12.ts` for the block at line 12 of that README. */
export function fileNameOf(block: CodeBlock): string {
  return `${block.name.replace(/\.md:/, '-').replaceAll(/[^\w-]/g, '-')}.ts`;
}

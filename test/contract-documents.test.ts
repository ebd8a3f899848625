import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { blocksOf, documents, fileNameOf, repository } from './support/documents.ts';

/** The folder is in the repository, so that imports find the workspace packages. Git ignores it. */
const folder = join(repository, '.vitest', 'contracts');

/** The complete test files that documents show for readers to copy. They need vitest. */
const contracts = documents
  .flatMap(blocksOf)
  .filter(
    ({ code }) => /^testSuite\(\s*processGroupSuite\(/m.test(code) && !/^declare /m.test(code),
  );

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
for (const block of contracts) {
  const file = join(folder, fileNameOf(block));
  writeFileSync(file, block.code);
  await import(/* @vite-ignore */ file);
}

test('the test of a transport in CONTRIBUTING is among those that run here', () => {
  expect(contracts.map(({ name }) => name.replace(/:.*/, ''))).toContain('CONTRIBUTING.md');
});

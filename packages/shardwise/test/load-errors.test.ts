import { mkdtemp, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { failureReport } from '../src/launcher/failure.ts';
import { launch } from '../src/launcher/launch.ts';
import { findLoadFault } from '../src/launcher/load-errors/find-position.ts';
import { createRankTransport } from '../src/launcher/transports/create-rank-transport.ts';
import type { RankForm } from '../src/launcher/transports/transport-choice.ts';
import { generationOf } from './generation-of.ts';

/**
 * Returns what the launcher reports about a script made of these files, without the folder's name. `train.ts` is the
 * script.
 */
async function reportOf(
  files: Readonly<Record<string, string>>,
  form: RankForm = 'threads',
): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'shardwise-load-'));
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  // The scripts find the packages of the repository.
  await symlink(join(import.meta.dirname, '../../../node_modules'), join(folder, 'node_modules'));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const script = join(folder, Object.keys(files)[0] ?? '');
  const generation = generationOf(1, folder);
  const transport = await createRankTransport(generation, form);
  const result = await launch({
    script,
    args: [],
    form,
    generation,
    runId: 'run',
    maxRestarts: 0,
    environment: process.env,
    transport,
    stop: new AbortController().signal,
    signal: new AbortController().signal,
    onMessage: () => undefined,
    onLine: () => undefined,
  });
  transport.close();
  const loadFault = await findLoadFault(result.outcomes[0]?.error, script);
  return failureReport(result, { loadFault }).map((line) =>
    line.replaceAll(`${dirname(script)}/`, ''),
  );
}

describe.each(['threads', 'processes'] as const)('a script that can not be loaded, %s', (form) => {
  it('is shown where TypeScript finds a syntax error', async () => {
    expect(await reportOf({ 'train.ts': 'const a = 1;\nconst b = (a + ;\n' }, form)).toEqual([
      'Rank 0 failed: SyntaxError: Expression expected',
      '    at train.ts:2:16',
      '  2 | const b = (a + ;',
      '    |                ^',
    ]);
  });

  it('is shown where JavaScript finds one that TypeScript does not', async () => {
    const train = 'const a: number = 1;\nlet a = 2;\n';
    expect(await reportOf({ 'train.ts': train }, form)).toEqual([
      "Rank 0 failed: SyntaxError: Identifier 'a' has already been declared",
      '    at train.ts:2:5',
      '  2 | let a = 2;',
      '    |     ^',
    ]);
  });

  it('is shown in the file that it imports', async () => {
    const files = {
      'train.ts': "import './model.js';\n",
      'model.js': "import './layer.mjs';\n",
      'layer.mjs': 'export const width = ;\n',
    };
    expect((await reportOf(files, form)).slice(1)).toEqual([
      '    at layer.mjs:1:22',
      '  1 | export const width = ;',
      '    |                      ^',
    ]);
  });

  it('is shown at the import of a package that is not installed', async () => {
    const train = "const a = 1;\nimport { x } from '@absent/package/part';\n";
    expect((await reportOf({ 'train.ts': train }, form)).slice(1)).toEqual([
      '    at train.ts:2:20',
      "  2 | import { x } from '@absent/package/part';",
      '    |                    ^',
      'Install it: npm install @absent/package',
    ]);
  });
});

describe('a script that can not be loaded', () => {
  it.each([
    [
      'TypeScript that Node can not strip',
      { 'train.ts': 'console.log(1);\n  enum Colour { Red }\n' },
      ['    at train.ts:2:3', '  2 |   enum Colour { Red }', '    |   ^'],
      /^Node removes types and compiles nothing: with "extends": "shardwise\/tsconfig\.json"/,
    ],
    [
      'an export that is a type',
      {
        'train.ts': "import { Options } from './options.ts';\n",
        'options.ts': 'export type Options = {};\n',
      },
      ['    at train.ts:1:10', "  1 | import { Options } from './options.ts';", '    |          ^'],
      /^If Options is a type, write `import \{ type Options \}`$/,
    ],
    [
      'a layer that is in a group',
      { 'train.ts': "import { Linear } from '@shardwise/core';\n" },
      [
        '    at train.ts:1:10',
        "  1 | import { Linear } from '@shardwise/core';",
        '    |          ^',
      ],
      /^It is in a group: write nn\.Linear, and import \{ nn \}$/,
    ],
    [
      'an optimizer that is in a group',
      { 'train.ts': "import { AdamW } from '@shardwise/core';\n" },
      [
        '    at train.ts:1:10',
        "  1 | import { AdamW } from '@shardwise/core';",
        '    |          ^',
      ],
      /^It is in a group: write optim\.AdamW, and import \{ optim \}$/,
    ],
    [
      'a function that is in a group of a group',
      { 'train.ts': "import { crossEntropy } from '@shardwise/core';\n" },
      [
        '    at train.ts:1:10',
        "  1 | import { crossEntropy } from '@shardwise/core';",
        '    |          ^',
      ],
      /^It is in a group: write nn\.functional\.crossEntropy, and import \{ nn \}$/,
    ],
    [
      'a function that is a method of tensors',
      { 'train.ts': "import { gelu } from '@shardwise/core';\n" },
      ['    at train.ts:1:10', "  1 | import { gelu } from '@shardwise/core';", '    |          ^'],
      /^It is a method of tensors: x\.gelu\(…\)$/,
    ],
    [
      'a name that is in no group',
      { 'train.ts': "import { Device } from '@shardwise/core';\n" },
      [
        '    at train.ts:1:10',
        "  1 | import { Device } from '@shardwise/core';",
        '    |          ^',
      ],
      /^If Device is a type, write `import \{ type Device \}`$/,
    ],
    [
      'a file name without its ending',
      { 'train.ts': "import './model';\n", 'model.ts': '' },
      ['    at train.ts:1:9', "  1 | import './model';", '    |         ^'],
      /^Write '\.\/model\.ts': Node completes no file names$/,
    ],
    [
      'a compiled file name',
      { 'train.ts': "import './model.js';\n", 'model.ts': '' },
      ['    at train.ts:1:9', "  1 | import './model.js';", '    |         ^'],
      /^Write '\.\/model\.ts'/,
    ],
  ])('by %s is shown there, with what to write', async (_, files, place, todo) => {
    const [, ...lines] = await reportOf(files);
    expect(lines.slice(0, 3)).toEqual(place);
    expect(lines[3]).toMatch(todo);
  });

  it.each([
    [
      'a default export that is not there',
      { 'train.ts': "import model from './model.ts';\n", 'model.ts': 'export {};\n' },
      'train.ts:1:8',
    ],
    [
      'a file that is not there',
      { 'train.ts': "export * from './a.ts';\n", 'a.ts': "await import('./absent.ts');\n" },
      'a.ts:1:15',
    ],
    [
      'JSON without an attribute',
      { 'train.ts': "import sizes from './sizes.json';\n", 'sizes.json': '{}' },
      'train.ts:1:20',
    ],
  ])('by %s is shown there', async (_, files, place) => {
    expect((await reportOf(files))[1]).toBe(`    at ${place}`);
  });

  it.each(['threads', 'processes'] as const)('is shown in a very long line, %s', async (form) => {
    const train = `const text = '${'a'.repeat(5000)}'; let y = ;\n`;
    const [, place, line, mark] = await reportOf({ 'train.ts': train }, form);
    expect(place).toBe('    at train.ts:1:5026');
    expect(line).toMatch(/^ {2}1 \| a{88}'; let y = ;$/);
    expect(line?.[mark?.indexOf('^') ?? 0]).toBe(';');
  });

  it("is shown in the module that a loader's workers import", async () => {
    const core = import.meta.resolve('@shardwise/core');
    const train = `import { data } from '${core}';
const module = new URL('./dataset.ts', import.meta.url);
for await (const _ of new data.DataLoader({ dataset: { module, length: 1 }, workers: 1 })) break;\n`;
    const report = await reportOf({ 'train.ts': train, 'dataset.ts': 'let a;\nlet a;\n' });
    expect(report.slice(1, 3)).toEqual([
      "  caused by SyntaxError: Identifier 'a' has already been declared",
      '    at dataset.ts:2:5',
    ]);
  });
});

describe('code that ran', () => {
  it('keeps its own stack, whatever it threw', async () => {
    const [headline, ...frames] = await reportOf({ 'train.ts': "\nJSON.parse('{');\n" });
    expect(headline).toMatch(/^Rank 0 failed: SyntaxError: /);
    expect(frames.at(-1)).toMatch(/^ {4}at .*train\.ts:2:6$/);
  });
});

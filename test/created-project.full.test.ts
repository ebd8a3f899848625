import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { repository } from './support/documents.ts';
import {
  dependenciesOf,
  installPackages,
  type InstalledPackages,
} from './support/installed-packages.ts';
import { runCommand, type Ended } from './support/run-command.ts';

/** The folder of projects that find nothing in the folders above them. */
const elsewhere = mkdtempSync(join(tmpdir(), 'shardwise-created-'));
let project: InstalledPackages['project'];
let packed: InstalledPackages['packed'];

afterAll(() => rmSync(elsewhere, { recursive: true, force: true }));

/** Runs a command as a user of the packages does: without the export condition of the repository. */
function runAsUser(cwd: string, command: string, ...args: readonly string[]): Promise<Ended> {
  return runCommand(command, args, { cwd, fromSource: false });
}

/** Makes a project by the packed command. */
function create(...args: readonly string[]): Promise<Ended> {
  return runAsUser(project, 'npx', 'create-shardwise', ...args);
}

/**
 * Gives a project what it depends on: the installed packages, which are not in the registry yet, and this repository's
 * TypeScript and types of Node, whose versions a test compares.
 */
function linkDependencies(folder: string): void {
  const modules = join(folder, 'node_modules');
  mkdirSync(modules);
  const link = (from: string, name: string): void =>
    symlinkSync(join(from, 'node_modules', name), join(modules, name), 'junction');
  for (const name of readdirSync(join(project, 'node_modules'))) {
    if (!name.startsWith('.package')) link(project, name);
  }
  for (const name of ['typescript', '@types']) link(repository, name);
}

describe('a project that create-shardwise has made', () => {
  const folder = join(elsewhere, 'My spirals');

  beforeAll(async () => {
    ({ project, packed } = await installPackages());
    const created = await create(folder);
    expect(created.exitCode, created.output).toBe(0);
    expect(created.stdout).toMatch(
      /^Created .*My spirals\. Next:\n {2}cd '.*My spirals'\n {2}npm install\n {2}npm run train\n$/,
    );
    linkDependencies(folder);
  });

  test('asks for the versions that belong together', () => {
    const manifest = dependenciesOf(folder);
    const { devDependencies } = dependenciesOf(repository);
    expect(manifest.dependencies).toEqual({
      shardwise: `^${packed.find(({ name }) => name === 'shardwise')?.version}`,
    });
    for (const [name, version] of Object.entries(manifest.devDependencies ?? {})) {
      expect(devDependencies).toMatchObject({ [name]: version });
    }
  });

  test('type-checks, with what Node could not run refused', async () => {
    const run = await runAsUser(folder, 'npm', 'run', '-s', 'typecheck');
    expect(run.output.trim()).toBe('');
    expect(run.exitCode).toBe(0);
    const wrong = join(folder, 'src', 'wrong.ts');
    writeFileSync(wrong, `import { Sample } from './data';\nenum Colour { Red }\n`);
    const refused = await runAsUser(folder, 'npm', 'run', '-s', 'typecheck');
    rmSync(wrong);
    // The errors are an import without a file extension, and an enum.
    for (const code of ['TS2835', 'TS1294']) expect(refused.stdout).toContain(code);
  });

  test('passes its tests', async () => {
    const run = await runAsUser(folder, 'npm', 'test');
    expect(run.exitCode, run.output).toBe(0);
    expect(run.stdout).toMatch(/^. fail 0$/m);
  });

  test('trains on two ranks, and goes on from there on three', async () => {
    const run = await runAsUser(folder, 'npm', 'run', 'train', '--', '--epochs', '2');
    expect(run.exitCode, run.output).toBe(0);
    expect(run.stdout).toMatch(
      /^step 100\/100 {2}loss 0\.\d+ {2}validation 0\.\d+ {2}accuracy 0\./m,
    );
    const args = ['shardwise', 'run', '--nproc', '3', '--resume', 'latest', 'src/train.ts'];
    const more = await runAsUser(folder, 'npx', ...args, '--epochs', '3');
    expect(more.exitCode, more.output).toBe(0);
    expect(more.stdout).toMatch(/^step 150\/150 /m);
  });

  test.each([
    ['gpt', ['--steps', '3'], /temperature 0\.8: "export class /],
    ['classifier', ['--epochs', '1'], /the best model has accuracy 0\.\d+: .*best\n/],
    [
      'lora',
      ['--steps', '2'],
      /answers after training:\n {2}\w.* -> ".*"[^]*peft opens it: .*adapter\n/,
    ],
  ])(
    'of the template %s type-checks and trains on two ranks',
    async (template, few, printed) => {
      const place = join(folder, template);
      const created = await create(place, '--template', template);
      expect(created.exitCode, created.output).toBe(0);
      symlinkSync(join(folder, 'node_modules'), join(place, 'node_modules'), 'junction');
      for (const file of globSync('pretrain.ts', { cwd: place })) {
        // The model that is trained first learns for a moment.
        const [path, few] = [join(place, file), 'const STEPS = 2;'];
        const written = readFileSync(path, 'utf8').replace(/^const STEPS = \d+;$/m, few);
        expect(written).toContain(few);
        writeFileSync(path, written);
      }
      const types = await runAsUser(place, 'npm', 'run', '-s', 'typecheck');
      expect(types.output.trim()).toBe('');
      const args = ['shardwise', 'run', '--nproc', '2', 'train.ts', ...few];
      const run = await runAsUser(place, 'npx', ...args);
      expect(run.exitCode, run.output).toBe(0);
      expect(run.stdout).toMatch(printed);
    },
    300_000,
  );

  test('is refused where something lies already', async () => {
    const again = await create(folder);
    expect(again.exitCode).toBe(2);
    expect(again.stderr).toMatch(
      /My spirals: it is not empty \(.*\)\. Give the name of a new folder/,
    );
  });

  test('is explained by --help, which makes nothing', async () => {
    const help = await create('--help');
    expect(help.exitCode).toBe(0);
    expect(help.stdout).toContain('Usage: npm create shardwise [folder] -- [--template NAME]');
  });
});

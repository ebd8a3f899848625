import { cpSync, globSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { repository } from './support/documents.ts';
import { importGraph } from './support/import-graph.ts';
import {
  dependenciesOf,
  installPackages,
  packageNames,
  runtimes,
  type InstalledPackages,
} from './support/installed-packages.ts';
import { runCommand, type Ended } from './support/run-command.ts';

/** Packages that are written as other authors would write them: using only the exports and READMEs of our packages. */
const authored = globSync('test/packed/*/package.json', { cwd: repository }).map((path) => {
  const folder = dirname(join(repository, path));
  return { name: basename(folder), folder, manifest: dependenciesOf(folder) };
});

let project: InstalledPackages['project'];
let packed: InstalledPackages['packed'];

beforeAll(async () => {
  ({ project, packed } = await installPackages());
  writeFileSync(join(project, 'opened.mjs'), OPENED);
});

/** Prints the files of packages that a program opens. */
const OPENED = `import { registerHooks } from 'node:module';
registerHooks({
  load(url, context, nextLoad) {
    if (url.includes('/node_modules/')) console.error(url);
    return nextLoad(url, context);
  },
});`;

/** Prints the name of an error, and the line of the user that it finds in the stack. */
const WRONG_SHAPE = `import { ones } from 'shardwise';
import { userLine } from '@shardwise/core/base';
try {
  ones([2, 3]).matmul(ones([2, 3]));
} catch (error) {
  console.log(error.name, userLine(error.stack));
}`;

/** Runs a command as a user of the packages does: without the export condition of the repository. */
function inProject(command: string, ...args: readonly string[]): Promise<Ended> {
  return runCommand(command, args, { cwd: project, fromSource: false });
}

describe.each(packageNames)('the tarball of %s', (name) => {
  const paths = (): readonly string[] =>
    packed.find((candidate) => candidate.name === name)?.files.map(({ path }) => path) ?? [];

  test('holds README, LICENSE, manifest, sources and build', () => {
    const entry = name === 'create-shardwise' ? 'main' : 'index';
    expect(paths()).toEqual(
      expect.arrayContaining([
        'README.md',
        'LICENSE',
        'package.json',
        `src/${entry}.ts`,
        `dist/${entry}.js`,
        `dist/${entry}.d.ts`,
      ]),
    );
  });

  test('holds nothing else: no tests, no traces of the build', () => {
    const allowed =
      /^(?:(?:README\.md|LICENSE|package\.json)$|src\/.*\.ts$|dist\/.*\.(?:js|d\.ts)(?:\.map)?$|bin\/|tsconfig\/script\.json$|templates\/)/;
    const isOwn = (path: string): boolean => !path.startsWith('templates/');
    expect(
      paths().filter((path) => !allowed.test(path) || (isOwn(path) && path.includes('.test.'))),
    ).toEqual([]);
  });
});

describe.each(runtimes)('the package $name', ({ folder, version, files, os, cpu }) => {
  test('holds the library for its platform, and is what backend-cpu depends on', () => {
    expect(folder).toBe(join('runtimes', `${os.join()}-${cpu.join()}`));
    for (const file of files) {
      expect(statSync(join(repository, folder, file)).size).toBeGreaterThan(10_000_000);
    }
    const backend = dependenciesOf(join(repository, 'packages', 'backend-cpu'));
    const name = `@shardwise/onnxruntime-${os.join()}-${cpu.join()}`;
    expect(backend.optionalDependencies).toMatchObject({ [name]: version });
    expect(backend.devDependencies).toMatchObject({ 'onnxruntime-node': version });
  });
});

describe('in a project that has installed the tarballs', () => {
  test("there is one platform's library, and no package that downloads others", () => {
    const modules = join(project, 'node_modules');
    expect(globSync('@shardwise/onnxruntime-*', { cwd: modules })).toEqual([
      join('@shardwise', `onnxruntime-${process.platform}-${process.arch}`),
    ]);
    expect(globSync('**/onnxruntime-node', { cwd: modules })).toEqual([]);
  });

  test('the packages come from there and not from the repository', () => {
    for (const name of packageNames) {
      const manifest = join(project, 'node_modules', name, 'package.json');
      expect(readFileSync(manifest, 'utf8')).toContain(`"name": "${name}"`);
    }
  });

  test('shardwise --version prints the version', async () => {
    const { stdout, exitCode, output } = await inProject('npx', 'shardwise', '--version');
    expect(exitCode, output).toBe(0);
    expect(stdout.trim()).toBe(packed.find(({ name }) => name === 'shardwise')?.version);
  });

  test.each(['shardwise', '@shardwise/core'])('import(%j) opens few files', async (name) => {
    const program = `await import('${name}');`;
    const args = ['--import', './opened.mjs', '--input-type=module', '--eval', program];
    const { stderr, exitCode, output } = await inProject('node', ...args);
    expect(exitCode, output).toBe(0);
    const own = stderr.split('\n').filter((url) => /node_modules\/@?shardwise\//.test(url));
    expect(own).toContainEqual(expect.stringContaining('/core/dist/bundle/index.js'));
    // The modules of dist, which pages bundle, would be some 700.
    expect(own.length).toBeLessThan(75);
    expect(own.filter((url) => !url.includes('/dist/bundle/'))).toEqual([]);
  });

  test('shardwise --help opens only what it prints: no tensors, no launcher, no zod', async () => {
    const command = join('node_modules', 'shardwise', 'bin', 'shardwise.js');
    const help = await inProject('node', '--import', './opened.mjs', command, '--help');
    expect(help.exitCode, help.output).toBe(0);
    expect(help.stdout).toContain('Usage: shardwise');
    expect(help.stderr).toContain('/shardwise/dist/bundle/main.js');
    expect(help.stderr.match(/.*\/(zod|collectives|strategies|backend-\w+)\/.*/g)).toBeNull();
    expect(help.stderr.split('\n').length).toBeLessThan(25);
  });

  test.each(['', '--enable-source-maps'])(
    'a wrong shape is an error whose innermost frame outside of the packages is the line of the user: node %s',
    async (option) => {
      writeFileSync(join(project, 'wrong-shape.ts'), WRONG_SHAPE);
      const run = await inProject('node', ...(option === '' ? [] : [option]), 'wrong-shape.ts');
      expect(run.exitCode, run.output).toBe(0);
      expect(run.stdout).toMatch(/^ShapeError .*wrong-shape\.ts:4:16\n$/);
    },
  );
});

describe.each(authored)('the package $name of another author', ({ name, folder, manifest }) => {
  test('depends on the packed packages and on nothing else', () => {
    const needed = { ...manifest.dependencies, ...manifest.devDependencies };
    expect(packageNames).toEqual(expect.arrayContaining(Object.keys(needed)));
  });

  test('keeps the contract of what it implements', async () => {
    const copy = join(project, 'authored', name);
    cpSync(folder, copy, { recursive: true });
    const run = await runCommand('node', ['contract.ts'], { cwd: copy, fromSource: false });
    expect(run.exitCode, run.output).toBe(0);
    expect(run.stdout).toMatch(/^passed /m);
    expect(run.stdout).not.toMatch(/^failed /m);
  }, 240_000);
});

describe('the entry points of @shardwise/core', () => {
  const entries = ['index.js', 'extend.js', join('spec', 'index.js'), join('base', 'index.js')];
  const bundles = ['index', 'extend', 'spec', 'base'].map((name) => join('bundle', `${name}.js`));
  test.each([...entries, ...bundles])('dist/%s loads no Node module', (entry) => {
    const { files, outside } = importGraph(join(repository, 'packages', 'core', 'dist', entry));
    expect(files.length).toBeGreaterThan(1);
    expect([...outside].filter(([specifier]) => specifier !== 'zod')).toEqual([]);
  });

  test('a Node module would be seen: dist/node.js loads some', () => {
    const { outside } = importGraph(join(repository, 'packages', 'core', 'dist', 'node.js'));
    expect([...outside.keys()]).toContain('node:fs/promises');
  });
});

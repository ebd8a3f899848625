import {
  cpSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { blocksOf, documents, fileNameOf, repository } from './support/documents.ts';
import { expectRun } from './support/expect-run.ts';
import { importGraph } from './support/import-graph.ts';
import { runCommand, type Ended } from './support/run-command.ts';

const packed = z.array(
  z.object({
    name: z.string(),
    version: z.string(),
    filename: z.string(),
    files: z.array(z.object({ path: z.string() })),
  }),
);

const dependenciesSchema = z.object({
  dependencies: z.record(z.string(), z.string()).optional(),
  optionalDependencies: z.record(z.string(), z.string()).optional(),
  devDependencies: z.record(z.string(), z.string()).optional(),
});
const runtimeSchema = z.object({
  name: z.string(),
  version: z.string(),
  files: z.array(z.string()),
  os: z.array(z.string()),
  cpu: z.array(z.string()),
});

const folders = globSync('packages/*/package.json', { cwd: repository })
  .map((path) => path.split(/[\\/]/)[1] ?? '')
  .toSorted();
const packageNames = folders.map((name) =>
  name.endsWith('shardwise') ? name : `@shardwise/${name}`,
);
/** A package for each platform, with ONNX Runtime's library. */
const runtimes = globSync('runtimes/*/package.json', { cwd: repository }).map((path) => {
  const manifest = runtimeSchema.parse(JSON.parse(readFileSync(join(repository, path), 'utf8')));
  return { folder: dirname(path), ...manifest };
});
/** Packages that are written as other authors would write them: using only the exports and READMEs of our packages. */
const authored = globSync('test/packed/*/package.json', { cwd: repository }).map((path) => {
  const folder = dirname(join(repository, path));
  return { name: basename(folder), folder, manifest: manifestOf(folder) };
});
const programs = documents.flatMap(blocksOf).filter(({ kind }) => kind === 'program');

/** The folder is outside the repository, so nothing in it finds the sources or node_modules. */
const project = mkdtempSync(join(tmpdir(), 'shardwise-packages-'));
/** The folder of a project that finds nothing in the folders above it. */
const elsewhere = mkdtempSync(join(tmpdir(), 'shardwise-created-'));
const tarballs = mkdtempSync(join(tmpdir(), 'shardwise-tarballs-'));
let packages: z.infer<typeof packed> = [];

function manifestOf(folder: string): z.infer<typeof dependenciesSchema> {
  return dependenciesSchema.parse(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')));
}

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

async function inRepository(command: string, ...args: readonly string[]): Promise<string> {
  const run = await runCommand(command, args, { cwd: repository, fromSource: false });
  expect(run.exitCode, run.output).toBe(0);
  return run.stdout;
}

/**
 * Builds what is missing or out of date, packs all packages and this platform's library, and installs them in one
 * project. The bundles, which other tests use at the same time, are up to date.
 */
beforeAll(async () => {
  await inRepository('npm', 'run', '-s', 'build');
  const workspaces = folders.map((name) => `--workspace=packages/${name}`);
  const options = ['--json', '--ignore-scripts', '--pack-destination', tarballs];
  const own = runtimes.find(({ os, cpu }) => os[0] === process.platform && cpu[0] === process.arch);
  if (own === undefined) throw new Error('no library for this platform');
  packages = [
    ...packed.parse(JSON.parse(await inRepository('npm', 'pack', ...options, ...workspaces))),
    ...packed.parse(JSON.parse(await inRepository('npm', 'pack', ...options, `./${own.folder}`))),
  ];
  const dependencies = Object.fromEntries(
    packages.map(({ name, filename }) => [name, `file:${join(tarballs, filename)}`]),
  );
  const manifest = { name: 'user-of-shardwise', private: true, type: 'module', dependencies };
  writeFileSync(join(project, 'package.json'), JSON.stringify(manifest));
  writeFileSync(join(project, 'opened.mjs'), OPENED);
  for (const block of programs) writeFileSync(join(project, fileNameOf(block)), block.code);
  // The installation runs the scripts of the installed packages, as it does for a user. None of them may need a
  // network.
  const flags = ['--prefer-offline', '--no-audit', '--no-fund'];
  const install = await inProject('npm', 'install', ...flags);
  expect(install.exitCode, install.output).toBe(0);
}, 300_000);

afterAll(() => {
  rmSync(project, { recursive: true, force: true });
  rmSync(elsewhere, { recursive: true, force: true });
  rmSync(tarballs, { recursive: true, force: true });
});

describe.each(packageNames)('the tarball of %s', (name) => {
  const paths = (): readonly string[] =>
    packages.find((candidate) => candidate.name === name)?.files.map(({ path }) => path) ?? [];

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
    const backend = manifestOf(join(repository, 'packages', 'backend-cpu'));
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
    expect(stdout.trim()).toBe(packages.find(({ name }) => name === 'shardwise')?.version);
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

  test.each(programs.map((block) => [block.name, block] as const))('%s runs', async (_, block) => {
    expectRun(await inProject('node', fileNameOf(block)), block);
  });

  test('the training script of README.md runs on two ranks', async () => {
    const script = programs.find(({ name }) => name.startsWith('README.md'));
    if (script === undefined) throw new Error('README.md has no program');
    const args = ['shardwise', 'run', '--nproc', '2', fileNameOf(script)];
    const run = await inProject('npx', ...args);
    expect(run.exitCode, run.output).toBe(0);
    expect(run.stdout).toMatch(/^step 256 /m);
  });

  test('programs and declarations type-check without a special condition', async () => {
    // These are the options that `tsc --init` writes, except that declarations are checked too.
    const compilerOptions = {
      module: 'nodenext',
      target: 'esnext',
      types: [],
      strict: true,
      noUncheckedIndexedAccess: true,
      exactOptionalPropertyTypes: true,
      verbatimModuleSyntax: true,
      isolatedModules: true,
      skipLibCheck: false,
      noEmit: true,
    };
    writeFileSync(
      join(project, 'tsconfig.json'),
      JSON.stringify({ compilerOptions, files: programs.map(fileNameOf) }),
    );
    const { exitCode, output } = await inProject('tsc', '-p', '.');
    expect(output.trim()).toBe('');
    expect(exitCode).toBe(0);
  });
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

describe('a project that create-shardwise has made', () => {
  const folder = join(elsewhere, 'My spirals');
  let createdManifest = '';
  const inFolder = (command: string, ...args: readonly string[]): Promise<Ended> =>
    runCommand(command, args, { cwd: folder, fromSource: false });

  beforeAll(async () => {
    const created = await inProject('npx', 'create-shardwise', folder);
    expect(created.exitCode, created.output).toBe(0);
    expect(created.stdout).toMatch(
      /^Created .*My spirals\. Next:\n {2}cd '.*My spirals'\n {2}npm install\n {2}npm run train\n$/,
    );
    createdManifest = readFileSync(join(folder, 'package.json'), 'utf8');
    // The packages that the project depends on are not in the registry yet, so they are installed from files.
    const paths = packages.map(({ filename }) => join(tarballs, filename));
    const flags = ['--prefer-offline', '--no-audit', '--no-fund'];
    const install = await inFolder('npm', 'install', ...flags, ...paths);
    expect(install.exitCode, install.output).toBe(0);
  }, 300_000);

  test('asks for the versions that belong together', () => {
    const manifest = dependenciesSchema.parse(JSON.parse(createdManifest));
    const { devDependencies } = manifestOf(repository);
    expect(manifest.dependencies).toEqual({
      shardwise: `^${packages.find(({ name }) => name === 'shardwise')?.version}`,
    });
    for (const [name, version] of Object.entries(manifest.devDependencies ?? {})) {
      expect(devDependencies).toMatchObject({ [name]: version });
    }
  });

  test('type-checks, with what Node could not run refused', async () => {
    const run = await inFolder('npm', 'run', '-s', 'typecheck');
    expect(run.output.trim()).toBe('');
    expect(run.exitCode).toBe(0);
    const wrong = join(folder, 'src', 'wrong.ts');
    writeFileSync(wrong, `import { Sample } from './data';\nenum Colour { Red }\n`);
    const refused = await inFolder('npm', 'run', '-s', 'typecheck');
    rmSync(wrong);
    // The errors are an import without a file extension, and an enum.
    for (const code of ['TS2835', 'TS1294']) expect(refused.stdout).toContain(code);
  });

  test('passes its tests', async () => {
    const run = await inFolder('npm', 'test');
    expect(run.exitCode, run.output).toBe(0);
    expect(run.stdout).toMatch(/^. fail 0$/m);
  });

  test('trains on two ranks, and goes on from there on three', async () => {
    const run = await inFolder('npm', 'run', 'train', '--', '--epochs', '2');
    expect(run.exitCode, run.output).toBe(0);
    expect(run.stdout).toMatch(
      /^step 100\/100 {2}loss 0\.\d+ {2}validation 0\.\d+ {2}accuracy 0\./m,
    );
    const args = ['shardwise', 'run', '--nproc', '3', '--resume', 'latest', 'src/train.ts'];
    const more = await inFolder('npx', ...args, '--epochs', '3');
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
      const created = await inProject('npx', 'create-shardwise', place, '--template', template);
      expect(created.exitCode, created.output).toBe(0);
      const inPlace = (command: string, ...args: readonly string[]): Promise<Ended> =>
        runCommand(command, args, { cwd: place, fromSource: false });
      symlinkSync(join(folder, 'node_modules'), join(place, 'node_modules'), 'junction');
      for (const file of globSync('pretrain.ts', { cwd: place })) {
        // The model that is trained first learns for a moment.
        const [path, few] = [join(place, file), 'const STEPS = 2;'];
        const written = readFileSync(path, 'utf8').replace(/^const STEPS = \d+;$/m, few);
        expect(written).toContain(few);
        writeFileSync(path, written);
      }
      const types = await inPlace('npm', 'run', '-s', 'typecheck');
      expect(types.output.trim()).toBe('');
      const run = await inPlace('npx', 'shardwise', 'run', '--nproc', '2', 'train.ts', ...few);
      expect(run.exitCode, run.output).toBe(0);
      expect(run.stdout).toMatch(printed);
    },
    300_000,
  );

  test('is refused where something lies already', async () => {
    const again = await inProject('npx', 'create-shardwise', folder);
    expect(again.exitCode).toBe(2);
    expect(again.stderr).toMatch(
      /My spirals: it is not empty \(.*\)\. Give the name of a new folder/,
    );
  });

  test('is explained by --help, which makes nothing', async () => {
    const help = await inProject('npx', 'create-shardwise', '--help');
    expect(help.exitCode).toBe(0);
    expect(help.stdout).toContain('Usage: npm create shardwise [folder] -- [--template NAME]');
  });
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

import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { repository } from './documents.ts';
import { oncePerRun } from './once-per-run.ts';
import { runCommand } from './run-command.ts';

const packedSchema = z.array(
  z.object({
    name: z.string(),
    version: z.string(),
    filename: z.string(),
    files: z.array(z.object({ path: z.string() })),
  }),
);
const runtimeSchema = z.object({
  name: z.string(),
  version: z.string(),
  files: z.array(z.string()),
  os: z.array(z.string()),
  cpu: z.array(z.string()),
});

const dependenciesSchema = z.object({
  dependencies: z.record(z.string(), z.string()).optional(),
  optionalDependencies: z.record(z.string(), z.string()).optional(),
  devDependencies: z.record(z.string(), z.string()).optional(),
});

const folders = globSync('packages/*/package.json', { cwd: repository })
  .map((path) => path.split(/[\\/]/)[1] ?? '')
  .toSorted();

/** The names of the packages that are published, without those that have ONNX Runtime's libraries. */
export const packageNames: readonly string[] = folders.map((name) =>
  name.endsWith('shardwise') ? name : `@shardwise/${name}`,
);

/** A package for each platform, with ONNX Runtime's library. */
export const runtimes: readonly ({ readonly folder: string } & z.infer<typeof runtimeSchema>)[] =
  globSync('runtimes/*/package.json', { cwd: repository }).map((path) => {
    const manifest = runtimeSchema.parse(JSON.parse(readFileSync(join(repository, path), 'utf8')));
    return { folder: dirname(path), ...manifest };
  });

/** Returns what the package in a folder depends on. */
export function dependenciesOf(folder: string): z.infer<typeof dependenciesSchema> {
  return dependenciesSchema.parse(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')));
}

/** The packages as a user has them. */
export interface InstalledPackages {
  /** The project that has installed them. It is outside the repository, so nothing in it finds the sources. */
  readonly project: string;
  readonly packed: z.infer<typeof packedSchema>;
}

/** Runs a command as a user of the packages does, without the export condition of the repository. */
async function succeed(
  cwd: string,
  ...[command = '', ...args]: readonly string[]
): Promise<string> {
  const run = await runCommand(command, args, { cwd, fromSource: false });
  if (run.exitCode !== 0) throw new Error(`${command} ${args.join(' ')}: ${run.output}`);
  return run.stdout;
}

/**
 * Packs all packages and this platform's library, and installs them in one project, once in a run of tests. What is
 * missing or out of date is built first. The bundles, which other tests use at the same time, are up to date.
 */
export async function installPackages(): Promise<InstalledPackages> {
  const made = await oncePerRun('installed-packages', async (folder) => {
    const [project, tarballs] = [join(folder, 'project'), join(folder, 'tarballs')];
    for (const path of [project, tarballs]) mkdirSync(path);
    await succeed(repository, 'npm', 'run', '-s', 'build');
    const workspaces = folders.map((name) => `--workspace=packages/${name}`);
    const own = runtimes.find(
      ({ os, cpu }) => os[0] === process.platform && cpu[0] === process.arch,
    );
    if (own === undefined) throw new Error('no library for this platform');
    const pack = ['npm', 'pack', '--json', '--ignore-scripts', '--pack-destination', tarballs];
    const packed = [
      ...packedSchema.parse(JSON.parse(await succeed(repository, ...pack, ...workspaces))),
      ...packedSchema.parse(JSON.parse(await succeed(repository, ...pack, `./${own.folder}`))),
    ];
    const dependencies = Object.fromEntries(
      packed.map(({ name, filename }) => [name, `file:${join(tarballs, filename)}`]),
    );
    const manifest = { name: 'user-of-shardwise', private: true, type: 'module', dependencies };
    writeFileSync(join(project, 'package.json'), JSON.stringify(manifest));
    // The installation runs the scripts of the installed packages, as it does for a user. None of them may need a
    // network.
    await succeed(project, 'npm', 'install', '--prefer-offline', '--no-audit', '--no-fund');
    writeFileSync(join(folder, 'packed.json'), JSON.stringify(packed));
  });
  return {
    project: join(made, 'project'),
    packed: packedSchema.parse(JSON.parse(readFileSync(join(made, 'packed.json'), 'utf8'))),
  };
}

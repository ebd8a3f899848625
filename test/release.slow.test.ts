import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { repository } from './support/documents.ts';
import { runCommand } from './support/run-command.ts';
import { type Registry, startRegistry } from './support/start-registry.ts';

// Does what a release does, on a clone of the last commit and with a registry on loopback: versions, build, publishing,
// and an installation by a user who begins with an empty folder.

const manifestSchema = z.object({
  name: z.string(),
  version: z.string(),
  private: z.boolean().optional(),
  dependencies: z.record(z.string(), z.string()).optional(),
});

const folder = mkdtempSync(join(tmpdir(), 'shardwise-release-'));
const clone = join(folder, 'repository');
let registry: Registry;
let version = '';

async function run(cwd: string, command: string, ...args: readonly string[]): Promise<string> {
  const { exitCode, stdout, output } = await runCommand(command, args, { cwd, fromSource: false });
  expect(exitCode, output).toBe(0);
  return stdout;
}

const manifests = (): readonly z.infer<typeof manifestSchema>[] =>
  globSync('packages/*/package.json', { cwd: clone }).map((path) =>
    manifestSchema.parse(JSON.parse(readFileSync(join(clone, path), 'utf8'))),
  );
const isOurs = (name: string): boolean =>
  name.endsWith('shardwise') || (name.startsWith('@shardwise/') && !name.includes('onnxruntime'));

describe('a release', { timeout: 900_000 }, () => {
  beforeAll(async () => {
    await run(folder, 'git', 'clone', '--quiet', repository, clone);
    await run(clone, 'npm', 'ci', '--prefer-offline', '--no-audit', '--no-fund');
    registry = await startRegistry(join(folder, 'registry'));
    process.env['NPM_CONFIG_USERCONFIG'] = registry.userConfig;
  }, 600_000);

  afterAll(async () => {
    delete process.env['NPM_CONFIG_USERCONFIG'];
    await registry.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test('gives all packages one version, and a changelog', async () => {
    await run(clone, 'npx', 'changeset', 'version');
    const versions = new Set(manifests().map((manifest) => manifest.version));
    expect(versions.size).toBe(1);
    [version = ''] = versions;
    expect(version).toMatch(/^\d+\.\d+\.\d+$/);
    expect(version).not.toBe('0.0.0');
    for (const { dependencies = {} } of manifests()) {
      const own = Object.entries(dependencies).filter(([name]) => isOurs(name));
      expect(own.map(([, wanted]) => wanted)).toEqual(own.map(() => version));
    }
    expect(globSync('.changeset/*.md', { cwd: clone })).toEqual([]);
    const changelog = readFileSync(join(clone, 'packages', 'shardwise', 'CHANGELOG.md'), 'utf8');
    expect(changelog).toContain(`## ${version}`);
  });

  test('builds, and publishes each package once', async () => {
    await run(clone, 'npm', 'run', 'build');
    // npm supports provenance on hosted runners only.
    const publish = ['publish', '--provenance=false'];
    await run(clone, 'npm', ...publish, '--workspaces');
    for (const runtime of globSync('runtimes/*', { cwd: clone })) {
      await run(clone, 'npm', ...publish, `./${runtime}`);
    }
    for (const { name } of manifests()) {
      expect((await run(folder, 'npm', 'view', name, 'version')).trim()).toBe(version);
    }
    const again = await runCommand('npm', [...publish, '--workspace=packages/core'], {
      cwd: clone,
      fromSource: false,
    });
    expect(again.exitCode).not.toBe(0);
  });

  test('is what a user gets, who begins with an empty folder and trains', async () => {
    await run(folder, 'npm', 'create', '--yes', 'shardwise', 'my-model');
    const project = join(folder, 'my-model');
    await run(project, 'npm', 'install', '--no-audit', '--no-fund');
    const installed = readFileSync(
      join(project, 'node_modules', '@shardwise', 'core', 'package.json'),
      'utf8',
    );
    expect(manifestSchema.parse(JSON.parse(installed)).version).toBe(version);
    const output = await run(project, 'npm', 'run', 'train', '--', '--epochs', '2');
    expect(output).toMatch(/^step 100\/100 {2}loss 0\.\d+/m);
  });
});

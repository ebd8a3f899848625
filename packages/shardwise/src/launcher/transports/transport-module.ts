import { stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { isAbsolute, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ConfigError } from '@shardwise/core/extend';
import type { TransportModule } from './join-way.ts';
import type { RankForm } from './transport-choice.ts';

const TIMEOUT_MS = 60_000;

/**
 * Finds the module that makes the transport of a run. `name` is the path of a file, relative to the working directory,
 * or the name of a package that is installed there. It is not loaded. Throws ConfigError if there is no such module, or
 * if ranks of this form have no use for it.
 */
export async function findTransportModule(
  name: string,
  form: RankForm,
  timeoutMs: number = TIMEOUT_MS,
): Promise<TransportModule> {
  if (form === 'threads') throw threadsError(name);
  const directory = process.cwd();
  const path = resolve(name);
  const found = await stat(path).catch(() => undefined);
  if (found?.isFile() === true) {
    return { name, specifier: pathToFileURL(path).href, directory, timeoutMs };
  }
  if (isPath(name)) {
    const what = found === undefined ? 'no such file' : 'it is no file';
    throw noModuleError(name, `${what} in ${directory}`, 'Give the path of a module');
  }
  if (!isInstalled(name, directory)) {
    throw noModuleError(
      name,
      `neither a file nor a package of that name is in ${directory}`,
      'Give the path of a module, or install the package there',
    );
  }
  return { name, specifier: name, directory, timeoutMs };
}

function isPath(name: string): boolean {
  return name.startsWith('.') || isAbsolute(name);
}

/** Whether Node finds the package. It may still have no entry point that can be imported. */
function isInstalled(name: string, directory: string): boolean {
  try {
    createRequire(join(directory, 'package.json')).resolve(name);
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND');
  }
}

function noModuleError(name: string, found: string, todo: string): ConfigError {
  return new ConfigError({ asked: `--transport ${name}`, found, todo }, { transport: name });
}

function threadsError(name: string): ConfigError {
  return new ConfigError(
    {
      asked: `--transport ${name} with --ranks threads`,
      found: 'threads talk by the memory that they share, and need no transport',
      todo: 'Leave out --ranks threads, or --transport',
    },
    { transport: name },
  );
}

import { BackendError, ConfigError } from '@shardwise/core/spec';

/**
 * The implementation of WebGPU of this host: the browser's, or in Node that of the optional package `webgpu`. There it
 * has all adapters, or only the one whose name contains `adapter`. Throws BackendError if there is none, and
 * ConfigError if a browser is asked for an adapter by its name.
 */
export async function findGpu(adapter?: string): Promise<GPU> {
  const { gpu } = globalThis.navigator ?? {};
  if (gpu !== undefined) {
    if (adapter !== undefined) throw noNames(adapter);
    return gpu;
  }
  if (typeof process === 'undefined' || process.versions.node === undefined)
    throw noBrowserSupport();
  const options = adapter === undefined ? [] : [`adapter=${adapter}`];
  const key = options.join();
  const known = dawn.get(key) ?? loadDawn(options);
  dawn.set(key, known);
  return known;
}

/** One GPU object for each set of options. All devices of the thread share it, because a device must not outlive it. */
const dawn = new Map<string, Promise<GPU>>();

async function loadDawn(options: string[]): Promise<GPU> {
  // Bundlers of pages do not follow a name that is in a variable.
  const name = 'webgpu';
  const loaded: unknown = await import(/* @vite-ignore */ name).catch((cause: unknown) => {
    throw notInstalled(cause);
  });
  if (!isDawn(loaded)) throw notInstalled(new TypeError('the package has no function create'));
  return loaded.create(options);
}

interface Dawn {
  readonly create: (options: string[]) => GPU;
}

function isDawn(loaded: unknown): loaded is Dawn {
  return (
    typeof loaded === 'object' &&
    loaded !== null &&
    'create' in loaded &&
    typeof loaded.create === 'function'
  );
}

function noNames(adapter: string): ConfigError {
  return new ConfigError(
    {
      asked: `a device of the adapter '${adapter}'`,
      found: 'a browser, which does not take adapters by name',
      todo: "Use powerPreference: 'low-power' or 'high-performance'",
    },
    { adapter },
  );
}

function notInstalled(cause: unknown): BackendError {
  return new BackendError(
    {
      asked: 'a device of WebGPU in Node',
      found: String(cause),
      todo: 'Install the package that brings it: npm install webgpu',
    },
    {},
    { cause },
  );
}

function noBrowserSupport(): BackendError {
  return new BackendError({
    asked: 'a device of WebGPU',
    found: 'this browser has no navigator.gpu here',
    todo: 'Open the page over https or from localhost, in a browser with WebGPU, or use another backend',
  });
}

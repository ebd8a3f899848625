import { BackendError } from '@shardwise/core/spec';

/** The implementation of WebGPU of this host: the browser's, or in Node that of the optional package `webgpu`. Throws BackendError. */
export async function findGpu(): Promise<GPU> {
  const { gpu } = globalThis.navigator ?? {};
  if (gpu !== undefined) return gpu;
  if (typeof process === 'undefined' || process.versions.node === undefined)
    throw noBrowserSupport();
  dawn ??= loadDawn();
  return dawn;
}

/** One for all devices of this thread: a device must not outlive it. */
let dawn: Promise<GPU> | undefined;

async function loadDawn(): Promise<GPU> {
  // A name that bundlers of pages do not follow.
  const name = 'webgpu';
  const loaded: unknown = await import(/* @vite-ignore */ name).catch((cause: unknown) => {
    throw notInstalled(cause);
  });
  if (!isDawn(loaded)) throw notInstalled(new TypeError('the package has no function create'));
  return loaded.create([]);
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

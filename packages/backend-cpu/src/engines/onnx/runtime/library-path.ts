import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { BackendError } from '@shardwise/core/spec';

/** The file name of the library in the package for each platform and architecture. */
const libraries: Readonly<Record<string, string>> = {
  'linux-x64': 'libonnxruntime.so.1',
  'linux-arm64': 'libonnxruntime.so.1',
  'darwin-arm64': 'libonnxruntime.1.dylib',
  'win32-x64': 'onnxruntime.dll',
  'win32-arm64': 'onnxruntime.dll',
};

/**
 * The path of ONNX Runtime's library. Each platform has its own package, and npm installs the one that fits. Throws
 * BackendError if there is none.
 */
export function libraryPath(platform = `${process.platform}-${process.arch}`): string {
  const library = libraries[platform];
  if (library === undefined) {
    throw new BackendError(
      {
        asked: 'to load ONNX Runtime',
        found: `no library for ${platform}`,
        todo: `Use one of ${Object.keys(libraries).join(', ')}`,
      },
      { platform },
    );
  }
  const name = `@shardwise/onnxruntime-${platform}`;
  try {
    return join(dirname(createRequire(import.meta.url).resolve(`${name}/package.json`)), library);
  } catch (cause) {
    throw new BackendError(
      {
        asked: 'to load ONNX Runtime',
        found: `${name} is not installed`,
        todo: 'Run npm install on this machine, without --omit=optional; on Linux it needs glibc, not musl',
      },
      { platform, package: name },
      { cause },
    );
  }
}

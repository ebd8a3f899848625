import { existsSync } from 'node:fs';
import { BackendError } from '@shardwise/core';
import { describe, expect, it } from 'vitest';
import { libraryPath } from '../src/engines/onnx/runtime/library-path.ts';

const platforms = ['linux-x64', 'linux-arm64', 'darwin-arm64', 'win32-x64', 'win32-arm64'];
const others = platforms.filter((platform) => platform !== `${process.platform}-${process.arch}`);

describe("ONNX Runtime's library", () => {
  it('is in the package of this platform', () => {
    expect(existsSync(libraryPath())).toBe(true);
  });

  it.each(others)(
    'is looked for in the package of %s, which says so where it is not there',
    (name) => {
      expect(() => libraryPath(name)).toThrow(BackendError);
      expect(() => libraryPath(name)).toThrow(
        `to load ONNX Runtime: @shardwise/onnxruntime-${name} is not installed. Run npm install on this machine`,
      );
    },
  );

  it('is refused for a platform that has none', () => {
    expect(() => libraryPath('sunos-x64')).toThrow(
      /no library for sunos-x64\. Use one of linux-x64, linux-arm64, darwin-arm64, win32-x64, win32-arm64$/,
    );
  });
});

import { readFileSync } from 'node:fs';

/** Returns the version of this package, which is also that of the `shardwise` that it is for. */
export function packageVersion(): string {
  const manifest: unknown = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  );
  const version: unknown =
    typeof manifest === 'object' && manifest !== null && 'version' in manifest
      ? manifest.version
      : undefined;
  if (typeof version !== 'string') throw new TypeError('package.json has no version');
  return version;
}

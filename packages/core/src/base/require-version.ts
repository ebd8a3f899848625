import { ConfigError } from '../spec/errors.ts';

/**
 * Throws ConfigError for an object of another package that implements another version of its interface. `given` is
 * checked, because plain JavaScript or a package that was built earlier may not have the version of the type.
 */
export function requireVersion<Version extends number>(
  asked: string,
  given: { readonly specificationVersion: Version },
  version: Version,
): void {
  const found: unknown = Object(given).specificationVersion;
  if (found === version) return;
  throw new ConfigError(
    {
      asked: `${asked} of specificationVersion ${String(found)}`,
      found: `this Shardwise has version ${version}`,
      todo: 'Update the older of the two packages',
    },
    { found, version },
  );
}

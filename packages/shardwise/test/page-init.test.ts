import { ConfigError } from '@shardwise/core';
import { expect, test } from 'vitest';
import { init } from '../src/browser/init.ts';

const untyped: (...options: readonly unknown[]) => Promise<unknown> = (...options) =>
  Reflect.apply(init, undefined, options);

test('a rank of a page takes no options, where some would have no effect', async () => {
  const mesh = [{ name: 'tp', size: 2 }];
  await expect(untyped({ mesh })).rejects.toThrow(ConfigError);
  await expect(untyped({ mesh })).rejects.toThrow(/takes none.*another mesh/s);
  await expect(untyped()).rejects.toThrow(/no worker/);
});

import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { ConfigError } from '@shardwise/core/extend';

/** Returns the path of a training script. Throws ConfigError, which says what was `asked`, if there is no such file. */
export async function findScript(script: string, asked: string): Promise<string> {
  const path = resolve(script);
  const found = await stat(path).catch(() => undefined);
  if (found?.isFile()) return path;
  throw new ConfigError(
    {
      asked,
      found: found === undefined ? `no such file in ${process.cwd()}` : 'it is no file',
      todo: 'Give the path of a training script',
    },
    { script },
  );
}

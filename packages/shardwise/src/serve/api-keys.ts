import { ConfigError } from '@shardwise/core/extend';
import { isLoopback } from '@shardwise/serve/node';
import { textOf } from '../environment/variables.ts';
import type { ServeOptions } from './serve-options.ts';

/** The variable with a key, which other users of the machine cannot see as they see a command line. */
const apiKeyVariable = 'SHARDWISE_API_KEY';

/**
 * The keys of which a request must have one: those of the command line, or else that of the environment. An empty list
 * lets everybody ask. Throws ConfigError for a key that a header cannot have, and for a server that other machines
 * reach without a key, unless that is what the options say.
 */
export function apiKeysOf(
  { apiKeys, withoutApiKey, host }: Pick<ServeOptions, 'apiKeys' | 'withoutApiKey' | 'host'>,
  environment: NodeJS.ProcessEnv,
): readonly string[] {
  if (withoutApiKey) {
    if (apiKeys.length === 0) return [];
    throw new ConfigError({
      asked: 'a server with --api-key and --without-api-key',
      found: 'options that exclude each other',
      todo: 'Leave out one of them',
    });
  }
  const ofEnvironment = textOf(environment, apiKeyVariable);
  const keys = apiKeys.length > 0 || ofEnvironment === undefined ? apiKeys : [ofEnvironment];
  // The message must not have the key.
  if (keys.some((key) => !/^[\x21-\x7e]{1,1024}$/.test(key))) {
    throw new ConfigError({
      asked: 'a server with an API key',
      found: 'a key that is empty, too long, or has spaces or other characters than ASCII has',
      todo: 'Make one with `openssl rand -hex 32`',
    });
  }
  if (keys.length > 0 || isLoopback(host)) return keys;
  throw new ConfigError(
    {
      asked: `a server at ${host} without an API key`,
      found: 'an address that other machines may reach, so that everybody could use the model',
      todo: `Set ${apiKeyVariable}, give --api-key, or say --without-api-key`,
    },
    { host },
  );
}

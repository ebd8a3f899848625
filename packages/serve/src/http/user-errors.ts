import { ConfigError, DataError } from '@shardwise/core/extend';

/** Whether an error says what is wrong with a request, such as a prompt beyond the context. */
export function isUserError(error: unknown): error is ConfigError | DataError {
  return error instanceof ConfigError || error instanceof DataError;
}

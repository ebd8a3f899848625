import { check, type ErrorParts, RefusedError } from '@shardwise/core/extend';

/** The reason why a server refuses a request. */
export type RefusalName =
  | 'malformed'
  | 'oversized'
  | 'stale'
  | 'gap'
  | 'no-part'
  | 'unknown-worker'
  | 'other-model'
  | 'not-initialised'
  | 'not-primary'
  | 'no-state'
  | 'worker-lost'
  | 'worker-late'
  | 'unknown-optimizer';

/** The error by which a server refuses a request. Its field `refusal` is the name of the reason. */
export function refusal(name: RefusalName, parts: ErrorParts): RefusedError {
  return new RefusedError(parts, { refusal: name });
}

/**
 * Returns whether an error is a refusal for one of these reasons. Without reasons, returns whether it is any refusal.
 */
export function isRefused(error: unknown, ...names: readonly RefusalName[]): boolean {
  if (!(error instanceof RefusedError)) return false;
  return names.length === 0 || names.some((name) => error.fields['refusal'] === name);
}

/** Returns a value from a connection if it passes the check. Throws RefusedError that names the wrong field. */
export function checkReceived<T>(expected: check.Expected<T>, value: unknown, asked: string): T {
  try {
    return check.checkValue(expected, value, '');
  } catch (cause) {
    if (!(cause instanceof check.SavedDataError)) throw cause;
    const { path, message } = cause;
    throw refusal('malformed', {
      asked,
      found: `${path === '' ? 'the head' : path}: ${message}`,
      todo: 'Send what this version of Shardwise sends',
    });
  }
}

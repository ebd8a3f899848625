import { RefusedError } from '@shardwise/core/extend';

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

/** The error by which a server refuses a request, and names the reason. */
export function refusal(
  name: RefusalName,
  asked: string,
  found: string,
  todo: string,
): RefusedError {
  return new RefusedError({ asked, found, todo }, { refusal: name });
}

/**
 * Returns whether an error is a refusal for one of these reasons. Without reasons, returns whether it is any refusal.
 */
export function isRefused(error: unknown, ...names: readonly RefusalName[]): boolean {
  if (!(error instanceof RefusedError)) return false;
  return names.length === 0 || names.some((name) => error.fields['refusal'] === name);
}

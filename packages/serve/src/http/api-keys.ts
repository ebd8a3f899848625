import { createHash, timingSafeEqual } from 'node:crypto';
import { ApiError } from './api-error.ts';

/**
 * Finds out whose request it is. Keys are compared by their hashes, all of them, in a time that does not depend on where
 * they differ.
 */
export class ApiKeys {
  readonly #hashes: readonly Buffer[];

  constructor(keys: readonly string[]) {
    this.#hashes = keys.map(hashOf);
  }

  /** The tenant of a request: the number of its key, or '' if no keys are asked for. Throws ApiError 401. */
  tenantOf(authorization: string | undefined): string {
    if (this.#hashes.length === 0) return '';
    const [scheme = '', key = ''] = authorization?.split(' ') ?? [];
    const given = hashOf(scheme.toLowerCase() === 'bearer' ? key : '');
    let found = -1;
    for (const [number, hash] of this.#hashes.entries()) {
      if (timingSafeEqual(hash, given)) found = number;
    }
    if (found >= 0) return `key ${found}`;
    throw new ApiError(401, 'No such API key. Send it as `Authorization: Bearer KEY`.', {
      type: 'authentication_error',
      code: 'invalid_api_key',
      headers: { 'www-authenticate': 'Bearer' },
    });
  }
}

function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

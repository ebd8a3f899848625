import { currentScope, within } from '../../ambient.ts';

/**
 * Modules that `body` constructs, in the constructor of another module, are not missed among its members:
 * the body takes something of them, as initial values, and drops them. Throws ConfigError for a body that
 * returns a promise.
 */
export function constructTemporary<T>(body: () => T): T {
  return within('constructTemporary', { isTemporary: true }, body);
}

export function isTemporary(): boolean {
  return currentScope().isTemporary;
}

import { within } from '../../ambient.ts';

/**
 * All modules behave as in evaluation in the passes that `body` calls, and keep their modes. Throws ConfigError for a body
 * that returns a promise.
 */
export function evaluating<T>(body: () => T): T {
  return within('evaluating', { isEvaluating: true }, body);
}

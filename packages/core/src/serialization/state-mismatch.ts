import { CheckpointError } from '../spec/errors.ts';

/** The names of entries that do not fit, by kind, such as `missing`, `unexpected` and `different`. */
export type StateDifferences = Readonly<Record<string, readonly string[]>>;

/** The most names of each kind that a message lists. */
const LISTED = 10;

/** The error for a saved state that does not fit its target. It lists all kinds of differences. */
export function stateMismatch(
  asked: string,
  differences: StateDifferences,
  todo: string,
): CheckpointError {
  const found = Object.entries(differences)
    .filter(([, names]) => names.length > 0)
    .map(([kind, names]) => {
      const rest = names.length > LISTED ? ` and ${names.length - LISTED} more` : '';
      return `${names.length} ${kind}: ${names.slice(0, LISTED).join(', ')}${rest}`;
    });
  return new CheckpointError({ asked, found: found.join('; '), todo }, differences);
}

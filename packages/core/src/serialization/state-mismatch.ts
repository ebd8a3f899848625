import { CheckpointError } from '../spec/errors.ts';

/** What does not fit, by kind, as `missing`, `unexpected` and `different`. */
export type StateDifferences = Readonly<Record<string, readonly string[]>>;

/** Most names that a message lists of each kind. */
const LISTED = 10;

/** The error for a saved state that is not that of its target; lists all kinds together. */
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

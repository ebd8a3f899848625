import { CheckpointError } from '../spec/errors.ts';

/** The names of entries that do not fit, by kind, such as `missing`, `unexpected` and `different`. */
type StateDifferences = Readonly<Record<string, readonly string[]>>;

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

/** What of a saved model does not fit a model: names that one of them lacks, and entries of other shapes or dtypes. */
export interface ModelDifferences {
  readonly missing: readonly string[];
  readonly unexpected: readonly string[];
  readonly different: readonly string[];
}

export interface FitOptions {
  /** Whether names must be the same. */
  readonly strict: boolean;
  /** The number of entries that fit. */
  readonly fitting: number;
}

/**
 * Throws CheckpointError if a saved model does not fit a model, or if nothing of it does although names may differ. If
 * names differ by a prefix, the error says by which.
 */
export function requireFit(
  asked: string,
  { missing, unexpected, different }: ModelDifferences,
  { strict, fitting }: FitOptions,
): void {
  const areNamesWrong = strict && missing.length + unexpected.length > 0;
  const fitsNothing = fitting === 0 && missing.length > 0 && unexpected.length > 0;
  if (different.length === 0 && !areNamesWrong && !fitsNothing) return;
  const all = { missing, unexpected, different };
  if (fitsNothing) throw stateMismatch(asked, all, namesAdvice(missing, unexpected));
  throw stateMismatch(
    asked,
    strict ? all : { different },
    'Load what was saved of a model of the same structure, or pass { strict: false } where only some names differ (in loadPretrained: allowMissing, allowUnexpected or allowMismatched)',
  );
}

/** What to do if no name fits. Most of the names that were found may be those that are missing, but for a prefix. */
function namesAdvice(missing: readonly string[], found: readonly string[]): string {
  const more = commonPrefix(found, missing);
  if (more !== null) {
    return `The names that were saved begin with '${more}', and those of the model do not: load them into a model that has this one as '${more.slice(0, -1)}', or remove that from the names`;
  }
  const less = commonPrefix(missing, found);
  return less === null
    ? 'Load what was saved of a model of the same structure, or give its entries the names of this one'
    : `The names of the model begin with '${less}', and those that were saved do not: load them into its '${less.slice(0, -1)}', or put that before the names`;
}

/** The prefix, with its point, that makes names of `longer` of at least half of the names of `shorter`. */
function commonPrefix(longer: readonly string[], shorter: readonly string[]): string | null {
  const known = new Set(longer);
  const tried = new Set<string>();
  for (const name of shorter) {
    for (const other of longer) {
      if (!other.endsWith(`.${name}`)) continue;
      const prefix = other.slice(0, -name.length);
      if (tried.has(prefix)) continue;
      tried.add(prefix);
      const count = shorter.filter((each) => known.has(prefix + each)).length;
      if (count >= shorter.length / 2) return prefix;
    }
  }
  return null;
}

/** The most rounds of the descent. */
const MAX_ROUNDS = 5000;
/** How often rows are weighted again by their errors. */
const REWEIGHTED = 20;
/** Rows with a smaller error than this have the same weight. */
const SMALL_ERROR = 0.03;
/** A round that changes the constants by less than this part of them is the last. */
const TOLERANCE = 1e-9;

/**
 * Returns the constants, none of them below 0, with which the sums of quantities × constants come closest to the
 * measured values. All errors are relative: that of a step of 1 s counts as much as that of one of 100 s. The sum of errors is made
 * small, and not that of their squares, so that a run on a slow network does not determine the constants (Huber 1964,
 * by weights). It descends along one constant after the other (Franc et al. 2005).
 *
 * With `others`, each row has a second sum in the same constants, and the larger one is compared, such as that of a device
 * and that of the host which starts its kernels. Each round fits the sum that was larger before (Magnani and Boyd 2009).
 *
 * Shape: quantities and others [rows][constants], measured [rows] -> [constants].
 */
export function fitConstants(
  quantities: readonly (readonly number[])[],
  measured: readonly number[],
  others: readonly (readonly number[])[] = quantities,
): readonly number[] {
  const equal = measured.map(() => 1);
  let constants: readonly number[] = fitWeighted(quantities, measured, equal).map(
    (constant, column) =>
      quantities.some((row) => row[column] !== 0) ? constant : mostOf(others, measured, column),
  );
  for (let round = 0; round < REWEIGHTED; round++) {
    const larger = largerOf(quantities, others, constants);
    const errors = errorsOf(larger, measured, constants);
    const weights = errors.map((error) => 1 / Math.sqrt(Math.max(SMALL_ERROR, Math.abs(error))));
    constants = fitWeighted(larger, measured, weights);
  }
  return constants;
}

/** The largest constant with which the quantity of one column exceeds no measured value. 0 if no row has it. */
function mostOf(
  quantities: readonly (readonly number[])[],
  measured: readonly number[],
  column: number,
): number {
  const having = range(measured.length).filter((index) => quantities[index]?.[column]);
  if (having.length === 0) return 0;
  return Math.min(
    ...having.map((index) => (measured[index] ?? 0) / (quantities[index]?.[column] ?? 1)),
  );
}

/** Of both sums of each row, the larger one. */
function largerOf(
  quantities: readonly (readonly number[])[],
  others: readonly (readonly number[])[],
  constants: readonly number[],
): readonly (readonly number[])[] {
  return quantities.map((row, index) => {
    const other = others[index] ?? row;
    return dot(other, constants) > dot(row, constants) ? other : row;
  });
}

/** Returns what the constants predict, relative to what was measured, less 1. */
export function errorsOf(
  quantities: readonly (readonly number[])[],
  measured: readonly number[],
  constants: readonly number[],
  others: readonly (readonly number[])[] = quantities,
): readonly number[] {
  return largerOf(quantities, others, constants).map(
    (row, index) => dot(row, constants) / (measured[index] ?? 1) - 1,
  );
}

/**
 * Returns the error of each row by constants that were fitted without it: the rows are dealt to `folds` parts, each of
 * which is predicted by constants of the others. Rows that have the same quantities other than 0 are dealt one after the
 * other (stratified folds), so that no part has all rows from which a constant could be learned.
 */
export function foldErrors(
  quantities: readonly (readonly number[])[],
  measured: readonly number[],
  others: readonly (readonly number[])[] = quantities,
  folds = 5,
): readonly number[] {
  const foldOf = foldsOf(quantities, folds);
  const errors: number[] = [];
  for (const fold of range(folds)) {
    const rowsOf = <Value>(values: readonly Value[], isOwn: boolean): readonly Value[] =>
      values.filter((_, index) => (foldOf[index] === fold) === isOwn);
    const constants = fitConstants(
      rowsOf(quantities, false),
      rowsOf(measured, false),
      rowsOf(others, false),
    );
    const own = errorsOf(
      rowsOf(quantities, true),
      rowsOf(measured, true),
      constants,
      rowsOf(others, true),
    );
    for (const [at, index] of rowsOf(range(measured.length), true).entries()) {
      errors[index] = own[at] ?? 0;
    }
  }
  return errors;
}

function foldsOf(quantities: readonly (readonly number[])[], folds: number): readonly number[] {
  const alike = Map.groupBy(range(quantities.length), (index) =>
    (quantities[index] ?? []).map((value) => value > 0).join(),
  );
  const foldOf: number[] = [];
  for (const [at, index] of [...alike.values()].flat().entries()) foldOf[index] = at % folds;
  return foldOf;
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
}

function fitWeighted(
  quantities: readonly (readonly number[])[],
  measured: readonly number[],
  weights: readonly number[],
): readonly number[] {
  const width = quantities[0]?.length ?? 0;
  // Columns of the size of 1, so that the descent takes steps of one size along all of them.
  const rows = quantities.map((row, index) =>
    row.map((value) => (value * (weights[index] ?? 1)) / (measured[index] ?? 1)),
  );
  const scales = range(width).map((column) => {
    const size = Math.sqrt(rows.reduce((sum, row) => sum + (row[column] ?? 0) ** 2, 0));
    return size === 0 ? 1 : size;
  });
  const scaled = rows.map((row) => row.map((value, column) => value / (scales[column] ?? 1)));
  const gram = range(width).map((a) =>
    range(width).map((b) => scaled.reduce((sum, row) => sum + (row[a] ?? 0) * (row[b] ?? 0), 0)),
  );
  const target = range(width).map((a) =>
    scaled.reduce((sum, row, index) => sum + (row[a] ?? 0) * (weights[index] ?? 1), 0),
  );
  const constants = descend(gram, target);
  // A constant that explains less than the descent knows is one of rounding: its quantity is that of another one.
  const least = TOLERANCE * Math.max(...constants);
  return constants.map((value, column) => (value > least ? value / (scales[column] ?? 1) : 0));
}

function descend(gram: readonly (readonly number[])[], target: readonly number[]): number[] {
  const constants = target.map(() => 0);
  for (let round = 0; round < MAX_ROUNDS; round++) {
    let change = 0;
    for (const [at, wanted] of target.entries()) {
      const row = gram[at] ?? [];
      const diagonal = row[at] ?? 0;
      if (diagonal === 0) continue;
      const now = constants[at] ?? 0;
      const gradient = row.reduce(
        (sum, value, other) => sum + value * (constants[other] ?? 0),
        -wanted,
      );
      const next = Math.max(0, now - gradient / diagonal);
      change = Math.max(change, Math.abs(next - now));
      constants[at] = next;
    }
    if (change <= TOLERANCE * Math.max(...constants)) break;
  }
  return constants;
}

function range(length: number): number[] {
  return Array.from({ length }, (_, index) => index);
}

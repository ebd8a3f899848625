/** The most rounds of the descent. */
const MAX_ROUNDS = 20_000;
/** A round that changes the constants by less than this part of them is the last. */
const TOLERANCE = 1e-9;

/**
 * Returns the constants, none of them below 0, with which the sums of quantities × constants come closest to the
 * measured values. All errors are relative: that of a step of 1 s counts as much as that of one of 100 s. It descends
 * along one constant after the other (Franc et al. 2005).
 *
 * Shape: quantities [rows][constants], measured [rows] -> [constants].
 */
export function fitConstants(
  quantities: readonly (readonly number[])[],
  measured: readonly number[],
): readonly number[] {
  const width = quantities[0]?.length ?? 0;
  // Columns of the size of 1, so that the descent takes steps of one size along all of them.
  const rows = quantities.map((row, index) => row.map((value) => value / (measured[index] ?? 1)));
  const scales = range(width).map((column) => {
    const size = Math.sqrt(rows.reduce((sum, row) => sum + (row[column] ?? 0) ** 2, 0));
    return size === 0 ? 1 : size;
  });
  const scaled = rows.map((row) => row.map((value, column) => value / (scales[column] ?? 1)));
  const gram = range(width).map((a) =>
    range(width).map((b) => scaled.reduce((sum, row) => sum + (row[a] ?? 0) * (row[b] ?? 0), 0)),
  );
  const target = range(width).map((a) => scaled.reduce((sum, row) => sum + (row[a] ?? 0), 0));
  const constants = descend(gram, target);
  return constants.map((value, column) => value / (scales[column] ?? 1));
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
      const gradient = row.reduce((sum, value, other) => sum + value * (constants[other] ?? 0), -wanted);
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

import { element, type HostMatrix, hostMatrix, identity } from './host-matrices.ts';

const MAX_SWEEPS = 60;

/**
 * One-sided Jacobi (Hestenes 1958): rotates pairs of columns until all columns are orthogonal. Their lengths are then
 * the singular values. Shape: matrix [M, N] with M >= N -> u [M, N], s [1, N], v [N, N].
 */
export function jacobi(matrix: HostMatrix): { u: HostMatrix; s: HostMatrix; v: HostMatrix } {
  const { rows, columns } = matrix;
  const work: HostMatrix = { rows, columns, values: matrix.values.slice() };
  const v = identity(columns);
  for (let sweep = 0, turned = true; turned && sweep < MAX_SWEEPS; sweep++) {
    turned = false;
    for (let p = 0; p < columns; p++) {
      for (let q = p + 1; q < columns; q++) turned = rotate(work, v, p, q) || turned;
    }
  }
  const lengths = Array.from({ length: columns }, (_, column) =>
    Math.sqrt(dot(work, column, column)),
  );
  const order = [...lengths.keys()].toSorted((a, b) => (lengths[b] ?? 0) - (lengths[a] ?? 0));
  const s = hostMatrix(1, columns);
  const [u, sorted] = [hostMatrix(rows, columns), hostMatrix(columns, columns)];
  order.forEach((from, to) => {
    const length = lengths[from] ?? 0;
    s.values[to] = length;
    for (let row = 0; row < columns; row++) {
      sorted.values[row * columns + to] = element(v, row, from);
    }
    for (let row = 0; row < rows; row++) {
      u.values[row * columns + to] = length === 0 ? 0 : element(work, row, from) / length;
    }
  });
  const largest = s.values[0] ?? 0;
  for (let column = 0; column < columns; column++) {
    if ((s.values[column] ?? 0) <= largest * 1e-15) complete(u, column);
  }
  return { u, s, v: sorted };
}

/** Makes columns p and q orthogonal by a rotation. Returns whether they were not orthogonal yet. */
function rotate(work: HostMatrix, v: HostMatrix, p: number, q: number): boolean {
  const [pp, qq, pq] = [dot(work, p, p), dot(work, q, q), dot(work, p, q)];
  if (!(Math.abs(pq) > 1e-15 * Math.sqrt(pp * qq))) return false;
  const ratio = (qq - pp) / (2 * pq);
  const tangent = (ratio < 0 ? -1 : 1) / (Math.abs(ratio) + Math.hypot(1, ratio));
  const cosine = 1 / Math.hypot(1, tangent);
  turn(work, p, q, cosine, cosine * tangent);
  turn(v, p, q, cosine, cosine * tangent);
  return true;
}

function turn(matrix: HostMatrix, p: number, q: number, cosine: number, sine: number): void {
  for (let row = 0; row < matrix.rows; row++) {
    const [a, b] = [element(matrix, row, p), element(matrix, row, q)];
    matrix.values[row * matrix.columns + p] = cosine * a - sine * b;
    matrix.values[row * matrix.columns + q] = sine * a + cosine * b;
  }
}

function dot(matrix: HostMatrix, p: number, q: number): number {
  let sum = 0;
  for (let row = 0; row < matrix.rows; row++) {
    sum += element(matrix, row, p) * element(matrix, row, q);
  }
  return sum;
}

/**
 * Fills a column with a unit vector that is orthogonal to all columns before it. From each vector of the standard
 * basis, its parts along those columns are subtracted, and the longest remainder is taken.
 */
function complete(u: HostMatrix, column: number): void {
  const { rows, columns } = u;
  let best = new Float64Array(rows);
  let bestLength = 0;
  for (let unit = 0; unit < rows; unit++) {
    const rest = new Float64Array(rows);
    rest[unit] = 1;
    for (let pass = 0; pass < 2; pass++) {
      for (let other = 0; other < column; other++) {
        const along = rest.reduce((sum, value, row) => sum + value * element(u, row, other), 0);
        rest.forEach((value, row) => (rest[row] = value - along * element(u, row, other)));
      }
    }
    const length = Math.hypot(...rest);
    if (length > bestLength) [best, bestLength] = [rest, length];
  }
  best.forEach((value, row) => (u.values[row * columns + column] = value / bestLength));
}

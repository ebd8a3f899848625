import { element, type HostMatrix, hostMatrix } from './host-matrices.ts';

/** The solution X of A X = B for a triangular A. Its other half is not read, nor, if `unit` is true, its diagonal. */
export function substitute(
  a: HostMatrix,
  b: HostMatrix,
  half: 'lower' | 'upper',
  unit: boolean,
): HostMatrix {
  const size = a.rows;
  const x = hostMatrix(size, b.columns);
  for (let step = 0; step < size; step++) {
    const row = half === 'lower' ? step : size - 1 - step;
    const [from, to] = half === 'lower' ? [0, row] : [row + 1, size];
    for (let column = 0; column < b.columns; column++) {
      let rest = element(b, row, column);
      for (let k = from; k < to; k++) rest -= element(a, row, k) * element(x, k, column);
      x.values[row * b.columns + column] = unit ? rest : rest / element(a, row, row);
    }
  }
  return x;
}

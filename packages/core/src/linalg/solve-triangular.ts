import { neg } from '../graph/ops/elementwise.ts';
import { matmul } from '../graph/ops/contract.ts';
import { shapeFault } from '../graph/infer-checks.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { triangle } from '../tensor/arrange/triangle.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { identity, leafOf, ofHost, readMatrices } from './host-matrices.ts';
import { substitute } from './substitute.ts';

/** Options of `solveTriangular`. */
export interface SolveTriangularOptions {
  /** Whether the upper half of a is read instead of the lower one. */
  readonly upper: boolean;
  /** Whether the diagonal of a counts as ones. Default: false. */
  readonly unitriangular?: boolean;
}

const solveRules: OptionRules<SolveTriangularOptions> = {
  upper: option.required(option.flag),
  unitriangular: option.flag,
};

/**
 * torch.linalg.solve_triangular: X with a X = b. It is computed on the host in f64, so it waits for a and b. A 0 on the
 * diagonal gives infinities or NaN, as in PyTorch.
 * Shape: a f32 [.., N, N], b f32 [.., N, K] with the same batch dims -> [.., N, K].
 */
export async function solveTriangular(
  a: Tensor,
  b: Tensor,
  options: SolveTriangularOptions,
): Promise<Tensor> {
  checkOptions('solveTriangular', options, solveRules);
  const { upper, unitriangular = false } = options;
  const fits =
    a.shape.at(-1) === a.shape.at(-2) &&
    a.shape.at(-1) === b.shape.at(-2) &&
    a.shape.slice(0, -2).join() === b.shape.slice(0, -2).join();
  if (!fits) {
    const todo = 'Use a of [.., N, N] and b of [.., N, K]; expand batch dims';
    throw shapeFault('solveTriangular', [a, b], 'shapes that do not fit', todo);
  }
  const half = upper ? 'upper' : 'lower';
  const left = await readMatrices('solveTriangular', a);
  const right = await readMatrices('solveTriangular', b);
  const solutions = left.map((matrix, i) =>
    substitute(matrix, right[i] ?? identity(0), half, unitriangular),
  );
  const inverses = leafOf(
    left.map((matrix) => substitute(matrix, identity(matrix.rows), half, unitriangular)),
    a.shape,
  );
  return ofHost('solveTriangular', [a, b], leafOf(solutions, b.shape), (gradient, _, x) => {
    const byRight = matmul(inverses, gradient, true, false);
    const byLeft = neg(matmul(byRight, x, false, true));
    const diagonal = unitriangular ? 1 : 0;
    const kept = upper ? triangle('triu', byLeft, diagonal) : triangle('tril', byLeft, -diagonal);
    return [kept, byRight];
  });
}

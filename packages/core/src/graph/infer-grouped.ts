import { sizeAt } from '../base/shape.ts';
import type { ValueType } from '../spec/dtype.ts';
import type { OpParams } from '../spec/op.ts';
import { at, floats, requireDType, requireSameDType, shapeFault } from './infer-checks.ts';

export function groupedMatmulShape(
  { transposeB }: OpParams['groupedMatmul'],
  inputs: readonly ValueType[],
): ValueType {
  const [x, w] = [at(inputs, 0), at(inputs, 1)];
  requireOperands('groupedMatmul', inputs);
  const [groups, rows, columns] = w.shape;
  const fits =
    w.shape.length === 3 &&
    groups === at(inputs, 2).shape[0] &&
    x.shape[1] === (transposeB ? columns : rows);
  if (!fits) {
    throw shapeFault(
      'groupedMatmul',
      inputs,
      `matrices that do not fit rows of ${x.shape[1]} features in ${at(inputs, 2).shape[0]} groups`,
      transposeB
        ? 'Use x [N, K], w [G, M, K] and counts [G]'
        : 'Use x [N, K], w [G, K, M] and counts [G]',
    );
  }
  return { shape: [sizeAt(x.shape, 0), sizeAt(w.shape, transposeB ? 1 : 2)], dtype: x.dtype };
}

export function groupedMatmulWeightShape(_: unknown, inputs: readonly ValueType[]): ValueType {
  const [a, b, counts] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
  requireOperands('groupedMatmulWeight', inputs);
  if (b.shape.length !== 2 || !Object.is(a.shape[0], b.shape[0])) {
    throw shapeFault(
      'groupedMatmulWeight',
      inputs,
      'operands that differ in their number of rows',
      'Use a [N, K], b [N, M] and counts [G]',
    );
  }
  const shape = [sizeAt(counts.shape, 0), sizeAt(a.shape, 1), sizeAt(b.shape, 1)];
  return { shape, dtype: a.dtype };
}

/** Checks the operands: rows x of floats, another operand of the same dtype, and i32 counts. */
function requireOperands(op: string, inputs: readonly ValueType[]): void {
  const [x, other, counts] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
  requireDType(op, x, floats);
  requireSameDType(op, [x, other]);
  requireDType(op, counts, ['i32']);
  if (x.shape.length === 2 && counts.shape.length === 1) return;
  throw shapeFault(
    op,
    inputs,
    `rows of ${x.shape.length} dims and counts of ${counts.shape.length}`,
    'Use rows of 2 dims and counts of 1',
  );
}

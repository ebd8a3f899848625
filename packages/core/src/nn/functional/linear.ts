import { elementCount, sizeAt } from '../../base/shape.ts';
import { matmul, matmulSums } from '../../graph/ops/contract.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { requireShape } from './require-shape.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { withBias } from './with-bias.ts';

const operation = 'linear';

/**
 * x Wᵀ + b, as one product over all rows.
 * Shape: x [.., I], weight [O, I], bias [O] -> [.., O]. Throws ShapeError.
 */
export function linear(x: Tensor, weight: Tensor, bias?: Tensor | null): Tensor {
  requireShape({ operation, name: 'weight', value: weight }, ['O', 'I']);
  requireShape({ operation, name: 'x', value: x }, ['..', ['features', sizeAt(weight.shape, 1)]]);
  if (bias !== undefined && bias !== null) {
    requireShape({ operation, name: 'bias', value: bias }, [['features', sizeAt(weight.shape, 0)]]);
  }
  return composed(() => {
    const leading = x.shape.slice(0, -1);
    const rows = x.ndim === 2 ? x : x.reshape([elementCount(leading), sizeAt(x.shape, x.ndim - 1)]);
    const operands = [rows.node, weight.node, false, true] as const;
    const result =
      bias === undefined || bias === null
        ? new Tensor(matmul(...operands))
        : withBias({
            x: rows,
            bias,
            rounded: () => matmul(...operands),
            sums: () => matmulSums(...operands),
          });
    return x.ndim === 2 ? result : result.reshape([...leading, sizeAt(weight.shape, 0)]);
  });
}

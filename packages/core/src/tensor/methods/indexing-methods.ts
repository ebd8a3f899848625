import { groupedMatmul } from '../../graph/ops/grouped.ts';
import { gather, indexAdd, indexSelect, oneHot, scatterAdd } from '../../graph/ops/index-ops.ts';
import { normalizeDim } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { operandOf, requireList, requireTensors } from '../check-arguments.ts';
import type { TensorHandle } from '../handle.ts';
import { at, type Index } from '../indexing/at.ts';
import { indexPut, type IndexPutOptions, maskedFill, put, takeAlongDim } from '../indexing/put.ts';
import { fillRows, takeRows } from '../../graph/ops/graph-ops.ts';
import { maskedSelect, nonzero, unique, uniqueWithCounts } from '../indexing/rows.ts';
import { dot, multiply, outer } from '../multiply.ts';
import { MovementMethods } from './movement-methods.ts';

/** Options of `matmul`: whether the last two dims of an operand are swapped before the product. */
export interface MatmulOptions {
  readonly transposeA?: boolean;
  readonly transposeB?: boolean;
}

const matmulRules: OptionRules<MatmulOptions> = {
  transposeA: option.flag,
  transposeB: option.flag,
};

/** Methods for products of tensors, and for taking and changing elements by their indices. */
export abstract class IndexingMethods<T extends TensorHandle> extends MovementMethods<T> {
  /**
   * torch.matmul: batch dims broadcast, and vectors are treated as in PyTorch. Shape: this [.., M, K], other [.., K, N]
   * -> [.., M, N].
   */
  matmul(other: T, options?: MatmulOptions): T {
    requireTensors('matmul', { other });
    checkOptions('matmul', options, matmulRules);
    return this.tensorOf(multiply(this.node, other.node, options?.transposeA, options?.transposeB));
  }
  /**
   * Multiplies groups of consecutive rows, each by the matrix of its group (torch._grouped_mm, with counts instead of
   * offsets). With counts [2, 3], the first 2 rows are group 0 and the next 3 are group 1. Rows behind the last group
   * give 0.
   * Shape: this [N, K], weights [G, K, M], counts i32 [G] -> [N, M].
   */
  groupedMatmul(weights: T, counts: T): T {
    requireTensors('groupedMatmul', { weights, counts });
    return this.tensorOf(groupedMatmul(this.node, weights.node, counts.node));
  }
  /**
   * Takes the first `count` rows. Only the run knows how many they are, so the size of dim 0 of the result is NaN.
   * Operations on rows accept the result (elementwise ops, products with matrices, sums, norms, indexSelect and
   * indexAdd), and `data()` returns the rows that there are. Operations that need to know the number of rows throw
   * ShapeError. `fillRows` makes the number known.
   * Shape: this [N, ..], count i32 [] -> [count, ..].
   */
  takeRows(count: T): T {
    requireTensors('takeRows', { count });
    return this.tensorOf(takeRows(this.node, count.node));
  }
  /** The rows that there are, followed by rows of zeros. Shape: this [count, ..] -> [rows, ..]. */
  fillRows(rows: number): T {
    return this.tensorOf(fillRows(this.node, rows));
  }
  /**
   * torch.nonzero, as i32. As with takeRows, only the run knows how many rows there are. Shape: this N -> [count, dims
   * of N].
   */
  nonzero(): T {
    return this.tensorOf(nonzero(this.node));
  }
  /**
   * torch.unique: each different element once, in ascending order. Only the run knows how many they are.
   * Shape: this N -> [count].
   */
  unique(): T {
    return this.tensorOf(unique(this.node));
  }
  /**
   * torch.unique with return_inverse and return_counts: the elements that unique() returns, the place of each element
   * of this tensor among them, and how often each of them occurs.
   * Shape: this N -> values [count], inverse i32 N, counts i32 [count].
   */
  uniqueWithCounts(): { readonly values: T; readonly inverse: T; readonly counts: T } {
    const { values, inverse, counts } = uniqueWithCounts(this.node);
    return {
      values: this.tensorOf(values),
      inverse: this.tensorOf(inverse),
      counts: this.tensorOf(counts),
    };
  }
  /**
   * torch.masked_select. Only the run knows how many elements there are. Shape: this N, mask bool N', broadcast ->
   * [count].
   */
  maskedSelect(mask: T): T {
    requireTensors('maskedSelect', { mask });
    return this.tensorOf(maskedSelect(this.node, mask.node));
  }
  /** torch.gather. Shape: this N, index i32 N' -> N'. */
  gather(dim: number, index: T): T {
    requireTensors('gather', { index });
    return this.tensorOf(gather(this.node, normalizeDim('gather', dim, this.ndim), index.node));
  }
  /** torch.scatter_add. Shape: this N, index i32 N', source N' -> N. */
  scatterAdd(dim: number, index: T, source: T): T {
    requireTensors('scatterAdd', { index, source });
    return this.tensorOf(
      scatterAdd(this.node, normalizeDim('scatterAdd', dim, this.ndim), index.node, source.node),
    );
  }
  /** torch.index_select. Shape: this [.., D, ..], index i32 [I] -> [.., I, ..]. */
  indexSelect(dim: number, index: T): T {
    requireTensors('indexSelect', { index });
    return this.tensorOf(
      indexSelect(this.node, normalizeDim('indexSelect', dim, this.ndim), index.node),
    );
  }
  /** torch.index_add. Shape: this [.., D, ..], index i32 [I], source [.., I, ..] -> [.., D, ..]. */
  indexAdd(dim: number, index: T, source: T): T {
    requireTensors('indexAdd', { index, source });
    return this.tensorOf(
      indexAdd(this.node, normalizeDim('indexAdd', dim, this.ndim), index.node, source.node),
    );
  }
  /** torch.nn.functional.one_hot, as bool. Shape: this i32 N -> bool [..N, classes]. */
  oneHot(classes: number): T {
    return this.tensorOf(oneHot(this.node, classes));
  }
  /** The products of all pairs of elements. Shape: this [N], other [M] -> [N, M]. */
  outer(other: T): T {
    requireTensors('outer', { other });
    return this.tensorOf(outer(this.node, other.node));
  }
  /** The sum of the products. Shape: this [N], other [N] -> []. */
  dot(other: T): T {
    requireTensors('dot', { other });
    return this.tensorOf(dot(this.node, other.node));
  }
  /**
   * x[…] of PyTorch. Items are numbers, slice(start, stop, step), ':', '...', null and i32 tensors, as in
   * `x.at(slice(0, 2), '...', -1)`. A mask of bools stands for as many dims as it has. Only the run counts its true
   * elements, which become dim 0. Throws ShapeError for a number that is out of range, and for more items than dims.
   */
  at(...items: readonly Index[]): T {
    return this.tensorOf(at(this.node, items));
  }
  /**
   * Replaces elements by `value`, a number or a scalar, where the mask is true. Shape: this N, mask bool N' ->
   * broadcast(N, N').
   */
  maskedFill(mask: T, value: T | number): T {
    requireTensors('maskedFill', { mask });
    return this.tensorOf(maskedFill(this.node, mask.node, operandOf(value)));
  }
  /**
   * torch.scatter: puts the elements of `source`, or a number, in the places of `index`. If a place is named more than
   * once, the last element counts. Shape: this N, index i32 N', source N' -> N.
   */
  scatter(dim: number, index: T, source: T | number): T {
    requireTensors('scatter', { index });
    return this.tensorOf(put(this.node, dim, index.node, operandOf(source)));
  }
  /**
   * x[indices] = values of PyTorch, as a new tensor. If a place is named more than once, the last value counts. Indices
   * below 0 count from the end.
   * Shape: this [A.., R..], an index i32 for each A, values broadcast to [B.., R..] -> this.
   */
  indexPut(indices: readonly T[], values: T | number, options?: IndexPutOptions): T {
    requireList('indexPut', 'indices', indices);
    requireTensors('indexPut', Object.fromEntries(indices.entries()));
    const nodes = indices.map(({ node }) => node);
    return this.tensorOf(indexPut(this.node, nodes, operandOf(values), options));
  }
  /**
   * torch.take_along_dim: does what gather does, but the other dims broadcast. Without a dim, it works on the flattened
   * tensors.
   */
  takeAlongDim(index: T, dim?: number): T {
    requireTensors('takeAlongDim', { index });
    return this.tensorOf(takeAlongDim(this.node, index.node, dim));
  }
}

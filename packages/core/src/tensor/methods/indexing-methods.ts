import { groupedMatmul } from '../../graph/build/grouped.ts';
import { gather, indexAdd, indexSelect, oneHot, scatterAdd } from '../../graph/build/index-ops.ts';
import { normalizeDim } from '../../shape.ts';
import { checkOptions } from '../../spec/check-options.ts';
import * as option from '../../spec/option-rules.ts';
import type { OptionRules } from '../../spec/option-rules.ts';
import { operandOf, requireList, requireTensors } from '../check-arguments.ts';
import type { TensorHandle } from '../handle.ts';
import { at, type Index } from '../indexing/at.ts';
import { indexPut, type IndexPutOptions, maskedFill, put, takeAlongDim } from '../indexing/put.ts';
import {
  fillRows,
  maskedSelect,
  nonzero,
  takeRows,
  unique,
  uniqueWithCounts,
} from '../indexing/rows.ts';
import { dot, multiply, outer } from '../multiply.ts';
import { MovementMethods } from './movement-methods.ts';

/** Whether the last two dims of an operand are swapped before the product. */
export interface MatmulOptions {
  readonly transposeA?: boolean;
  readonly transposeB?: boolean;
}

const matmulRules: OptionRules<MatmulOptions> = {
  transposeA: option.flag,
  transposeB: option.flag,
};

/** Methods for products of tensors, and for elements by their indices. */
export abstract class IndexingMethods<T extends TensorHandle> extends MovementMethods<T> {
  /** Batch dims broadcast; vectors as torch.matmul. Shape: this [.., M, K], other [.., K, N] -> [.., M, N]. */
  matmul(other: T, options?: MatmulOptions): T {
    requireTensors('matmul', { other });
    checkOptions('matmul', options, matmulRules);
    return this.tensorOf(multiply(this.node, other.node, options?.transposeA, options?.transposeB));
  }
  /**
   * Rows in groups, one after the other, each times the matrix of its group (torch._grouped_mm with offsets, here as
   * counts): of counts [2, 3] the first 2 rows are of group 0, the next 3 of group 1, and rows behind them give 0.
   * Shape: this [N, K], weights [G, K, M], counts i32 [G] -> [N, M].
   */
  groupedMatmul(weights: T, counts: T): T {
    requireTensors('groupedMatmul', { weights, counts });
    return this.tensorOf(groupedMatmul(this.node, weights.node, counts.node));
  }
  /**
   * The first rows, as many as a number that the run computes. Only the run knows how many: the size of dim 0 is NaN.
   * What works on rows takes them (elementwise ops, products with matrices, sums, norms, indexSelect and indexAdd); `data()`
   * gives those that there are. What needs to know their number is refused with ShapeError; `fillRows` makes it known.
   * Shape: this [N, ..], count i32 [] -> [count, ..].
   */
  takeRows(count: T): T {
    requireTensors('takeRows', { count });
    return this.tensorOf(takeRows(this.node, count.node));
  }
  /** The rows, and zeros behind them. Shape: this [count, ..] -> [rows, ..]. */
  fillRows(rows: number): T {
    return this.tensorOf(fillRows(this.node, rows));
  }
  /** torch.nonzero, i32. Only the run knows how many rows there are, as with takeRows. Shape: this N -> [count, dims of N]. */
  nonzero(): T {
    return this.tensorOf(nonzero(this.node));
  }
  /** torch.unique: each different element once, in ascending order. Only the run knows how many. Shape: this N -> [count]. */
  unique(): T {
    return this.tensorOf(unique(this.node));
  }
  /**
   * torch.unique with return_inverse and return_counts: the elements that unique() gives, the place among them of each element of
   * this tensor, and how often each is in it. Shape: this N -> values [count], inverse i32 N, counts i32 [count].
   */
  uniqueWithCounts(): { readonly values: T; readonly inverse: T; readonly counts: T } {
    const { values, inverse, counts } = uniqueWithCounts(this.node);
    return {
      values: this.tensorOf(values),
      inverse: this.tensorOf(inverse),
      counts: this.tensorOf(counts),
    };
  }
  /** torch.masked_select: as many elements as the run finds. Shape: this N, mask bool N', broadcast -> [count]. */
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
  /** Shape: this i32 N -> bool [..N, classes]. */
  oneHot(classes: number): T {
    return this.tensorOf(oneHot(this.node, classes));
  } /** Products of all pairs of elements. Shape: this [N], other [M] -> [N, M]. */
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
   * x[…] of PyTorch: numbers, slice(start, stop, step), ':', '...', null and i32 tensors, as `x.at(slice(0, 2), '...', -1)`.
   * A mask of bools stands for as many dims as it has; only the run counts its true elements, which become dim 0.
   * Throws ShapeError for what is out of range, or more items than dims.
   */
  at(...items: readonly Index[]): T {
    return this.tensorOf(at(this.node, items));
  }
  /** `value`, which is an element, where the mask is true. Shape: this N, mask bool N' -> broadcast(N, N'). */
  maskedFill(mask: T, value: T | number): T {
    requireTensors('maskedFill', { mask });
    return this.tensorOf(maskedFill(this.node, mask.node, operandOf(value)));
  }
  /** torch.scatter: elements of `source`, or a number, in these places; of equal ones the last counts. Shape: this N, index i32 N', source N' -> N. */
  scatter(dim: number, index: T, source: T | number): T {
    requireTensors('scatter', { index });
    return this.tensorOf(put(this.node, dim, index.node, operandOf(source)));
  }
  /**
   * x[indices] = values of PyTorch, as a new tensor; of equal places the last counts. Indices below 0 count from the end.
   * Shape: this [A.., R..], an index i32 for each A, values broadcast to [B.., R..] -> this.
   */
  indexPut(indices: readonly T[], values: T | number, options?: IndexPutOptions): T {
    requireList('indexPut', 'indices', indices);
    requireTensors('indexPut', Object.fromEntries(indices.entries()));
    const nodes = indices.map(({ node }) => node);
    return this.tensorOf(indexPut(this.node, nodes, operandOf(values), options));
  }
  /** torch.take_along_dim: as gather, where the other dims broadcast; of all in a row where no dim is given. */
  takeAlongDim(index: T, dim?: number): T {
    requireTensors('takeAlongDim', { index });
    return this.tensorOf(takeAlongDim(this.node, index.node, dim));
  }
}

import { layerNorm, logSoftmax, rmsNorm, softmax } from '../../graph/ops/normalize.ts';
import { requireTensors } from '../check-arguments.ts';
import type { TensorHandle } from '../handle.ts';
import { binCount, histogram, type HistogramOptions } from '../reduce/count.ts';
import { logSumExp, norm, type NormOptions, std } from '../reduce/norm.ts';
import * as order from '../reduce/order.ts';
import type { NodesWithIndices, SortOptions, TopKOptions } from '../reduce/order.ts';
import { cumProd, prod } from '../reduce/product.ts';
import * as reductions from '../reductions.ts';
import type { ReduceOptions, VarianceOptions } from '../reductions.ts';
import { UnaryMethods } from './unary-methods.ts';

/** Elements, and the i32 index of each along the dim. */
export interface WithIndices<T> {
  readonly values: T;
  readonly indices: T;
}

/** Methods that reduce over `dims` (all when absent), or work along one dim. Shape: N -> N without dims. */
export abstract class ReductionMethods<T extends TensorHandle> extends UnaryMethods<T> {
  /** The sum. For integers and bools it is i32, where PyTorch has int64, and wraps around. */
  sum(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(reductions.sum(this.node, dims, options));
  }
  mean(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(reductions.mean(this.node, dims, options));
  }
  /** torch.amax: the maximum. Equal maxima share the gradient. */
  max(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(reductions.max(this.node, dims, options));
  }
  min(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(reductions.min(this.node, dims, options));
  }
  /** torch.var: divides by n - correction. */
  variance(dims?: number | readonly number[], options?: VarianceOptions): T {
    return this.tensorOf(reductions.variance(this.node, dims, options));
  }
  /**
   * The i32 index of the first maximum, or of the first NaN. Without a dim, it is the index in the flattened tensor.
   */
  argMax(dim?: number, options?: ReduceOptions): T {
    return this.tensorOf(reductions.argMax(this.node, dim, options));
  }
  /**
   * The i32 index of the first minimum, or of the first NaN. Without a dim, it is the index in the flattened tensor.
   */
  argMin(dim?: number, options?: ReduceOptions): T {
    return this.tensorOf(order.argMin(this.node, dim, options));
  }
  /** torch.std: the square root of the variance. Where the result is 0, its gradient is 0. */
  std(dims?: number | readonly number[], options?: VarianceOptions): T {
    return this.tensorOf(std(this.node, dims, options));
  }
  /** The product. For integers and bools it is i32, where PyTorch has int64, and wraps around. */
  prod(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(prod(this.node, dims, options));
  }
  /** torch.linalg.vector_norm. Where the norm is 0, its gradient is 0. */
  norm(dims?: number | readonly number[], options?: NormOptions): T {
    return this.tensorOf(norm(this.node, dims, options));
  }
  /** log(sum(exp(x))), without overflow. */
  logSumExp(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(logSumExp(this.node, dims, options));
  }
  /** Whether any element is not 0, as bool. The result is false if there are no elements. */
  any(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(reductions.any(this.node, dims, options));
  }
  /** Whether no element is 0, as bool. The result is true if there are no elements. */
  all(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(reductions.all(this.node, dims, options));
  }
  /** torch.max along a dim: the maximum, and the index of the first one. The first one gets all of the gradient. */
  maxWithIndices(dim: number, options?: ReduceOptions): WithIndices<T> {
    return this.#both(order.extremeWithIndices('maxWithIndices', this.node, dim, options));
  }
  /** torch.min along a dim: the minimum, and the index of the first one. The first one gets all of the gradient. */
  minWithIndices(dim: number, options?: ReduceOptions): WithIndices<T> {
    return this.#both(order.extremeWithIndices('minWithIndices', this.node, dim, options));
  }
  /**
   * torch.median along a dim: the median and its index. Of two elements in the middle, the lower one is taken. The
   * first NaN is taken if there is one. Throws ShapeError for an empty dim.
   */
  median(dim: number, options?: ReduceOptions): WithIndices<T> {
    return this.#both(order.median(this.node, dim, options));
  }
  /**
   * torch.topk: the k largest elements, or the k smallest, in order, and their indices. Shape: [.., D, ..] -> [.., k,
   * ..].
   */
  topK(k: number, options?: TopKOptions): WithIndices<T> {
    return this.#both(order.topK(this.node, k, options));
  }
  /**
   * The elements in ascending order, and their indices. NaN comes after all numbers, and equal elements keep their
   * order.
   * Shape: N -> N.
   */
  sort(dim?: number, options?: SortOptions): WithIndices<T> {
    return this.#both(order.sort(this.node, dim, options));
  }
  /** The i32 indices of the elements that `sort` returns. Shape: N -> N. */
  argSort(dim?: number, options?: SortOptions): T {
    return this.tensorOf(order.argSort(this.node, dim, options));
  }
  /** Running products. For integers and bools they are i32, where PyTorch has int64. Shape: N -> N. */
  cumProd(dim: number): T {
    return this.tensorOf(cumProd(this.node, dim));
  }
  /**
   * torch.bincount: how often each number from 0 to length - 1 occurs in this tensor, or the sum of the weights of its
   * occurrences. In PyTorch, the largest number determines the length of the result. Here, a run that meets a number
   * outside of the range rejects with IndexError. Shape: this i32 [N], weights [N] -> i32 [length], or the weights'
   * dtype.
   */
  binCount(length: number, weights: T | null = null): T {
    if (weights !== null) requireTensors('binCount', { weights });
    return this.tensorOf(binCount(this.node, length, weights?.node ?? null));
  }
  /**
   * The number of elements in each of several equally wide bins. It has no gradient. Shape: N -> counts [bins], edges
   * [bins + 1].
   */
  histogram(options?: HistogramOptions): { readonly counts: T; readonly edges: T } {
    const { counts, edges } = histogram(this.node, options);
    return { counts: this.tensorOf(counts), edges: this.tensorOf(edges) };
  }
  /** Running sums. For integers and bools they are i32, where PyTorch has int64, and wrap around. Shape: N -> N. */
  cumsum(dim: number): T {
    return this.tensorOf(reductions.cumsum(this.node, dim));
  }
  /** Shape: N -> N. */
  softmax(dim?: number): T {
    return this.tensorOf(reductions.alongDim('softmax', this.node, dim, softmax));
  }
  /** Shape: N -> N. */
  logSoftmax(dim?: number): T {
    return this.tensorOf(reductions.alongDim('logSoftmax', this.node, dim, logSoftmax));
  }
  /** Shape: this [.., D], weight [D], bias [D] -> [.., D]. */
  layerNorm(weight: T, bias: T, eps = 1e-5): T {
    requireTensors('layerNorm', { weight, bias });
    return this.tensorOf(layerNorm(this.node, weight.node, bias.node, eps));
  }
  /** Shape: this [.., D], weight [D] -> [.., D]. */
  rmsNorm(weight: T, eps = 1e-6): T {
    requireTensors('rmsNorm', { weight });
    return this.tensorOf(rmsNorm(this.node, weight.node, eps));
  }

  #both({ values, indices }: NodesWithIndices): WithIndices<T> {
    return { values: this.tensorOf(values), indices: this.tensorOf(indices) };
  }
}

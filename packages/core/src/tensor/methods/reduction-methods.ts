import { layerNorm, logSoftmax, rmsNorm, softmax } from '../../graph/build/normalize.ts';
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

/** Elements, and i32 indices that say where they were along the dim. */
export interface WithIndices<T> {
  readonly values: T;
  readonly indices: T;
}

/** Methods that reduce over `dims` (all when absent), or go along one. Shape: N -> N without dims. */
export abstract class ReductionMethods<T extends TensorHandle> extends UnaryMethods<T> {
  /** i32 of integers and bools, where PyTorch has int64; it wraps around. */
  sum(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(reductions.sum(this.node, dims, options));
  }
  mean(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(reductions.mean(this.node, dims, options));
  }
  /** Equal maxima share the gradient, as torch.amax. */
  max(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(reductions.max(this.node, dims, options));
  }
  min(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(reductions.min(this.node, dims, options));
  }
  /** Divides by n - correction, as torch.var. */
  variance(dims?: number | readonly number[], options?: VarianceOptions): T {
    return this.tensorOf(reductions.variance(this.node, dims, options));
  }
  /** i32 index of the first maximum, or of the first NaN; of all elements in a row where no dim is given. */
  argMax(dim?: number, options?: ReduceOptions): T {
    return this.tensorOf(reductions.argMax(this.node, dim, options));
  }
  /** i32 index of the first minimum, or of the first NaN; of all elements in a row where no dim is given. */
  argMin(dim?: number, options?: ReduceOptions): T {
    return this.tensorOf(order.argMin(this.node, dim, options));
  }
  /** The square root of the variance; its gradient is 0 where it is 0. */
  std(dims?: number | readonly number[], options?: VarianceOptions): T {
    return this.tensorOf(std(this.node, dims, options));
  }
  /** i32 of integers and bools, where PyTorch has int64; it wraps around. */
  prod(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(prod(this.node, dims, options));
  }
  /** torch.linalg.vector_norm; its gradient is 0 where it is 0. */
  norm(dims?: number | readonly number[], options?: NormOptions): T {
    return this.tensorOf(norm(this.node, dims, options));
  }
  /** log(sum(exp(x))), without overflow. */
  logSumExp(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(logSumExp(this.node, dims, options));
  }
  /** Whether one is not 0, as bool; false of none. */
  any(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(reductions.any(this.node, dims, options));
  }
  /** Whether none is 0, as bool; true of none. */
  all(dims?: number | readonly number[], options?: ReduceOptions): T {
    return this.tensorOf(reductions.all(this.node, dims, options));
  }
  /** The maximum, and where the first one stands, which has all of its gradient: torch.max along a dim. */
  maxWithIndices(dim: number, options?: ReduceOptions): WithIndices<T> {
    return this.#both(order.extremeWithIndices('maxWithIndices', this.node, dim, options));
  }
  /** The minimum, and where the first one stands, which has all of its gradient: torch.min along a dim. */
  minWithIndices(dim: number, options?: ReduceOptions): WithIndices<T> {
    return this.#both(order.extremeWithIndices('minWithIndices', this.node, dim, options));
  }
  /** The lower one of two in the middle, or the first NaN, and where it stands. Throws ShapeError for an empty dim. */
  median(dim: number, options?: ReduceOptions): WithIndices<T> {
    return this.#both(order.median(this.node, dim, options));
  }
  /** The k largest elements, or the smallest, in order, and where they stand. Shape: [.., D, ..] -> [.., k, ..]. */
  topK(k: number, options?: TopKOptions): WithIndices<T> {
    return this.#both(order.topK(this.node, k, options));
  }
  /** In ascending order, NaN behind all numbers, and where elements stood; equal ones keep their order. Shape: N -> N. */
  sort(dim?: number, options?: SortOptions): WithIndices<T> {
    return this.#both(order.sort(this.node, dim, options));
  }
  /** i32; where the elements stand that `sort` gives. Shape: N -> N. */
  argSort(dim?: number, options?: SortOptions): T {
    return this.tensorOf(order.argSort(this.node, dim, options));
  }
  /** Running products; i32 of integers and bools, where PyTorch has int64. Shape: N -> N. */
  cumProd(dim: number): T {
    return this.tensorOf(cumProd(this.node, dim));
  }
  /**
   * How often each number from 0 to length - 1 occurs in this tensor, or the sum of their weights. PyTorch makes the
   * result as long as the largest number asks; here a run that meets a number from `length` on rejects with IndexError.
   * Shape: this i32 [N], weights [N] -> i32 [length], or the weights' dtype.
   */
  binCount(length: number, weights: T | null = null): T {
    if (weights !== null) requireTensors('binCount', { weights });
    return this.tensorOf(binCount(this.node, length, weights?.node ?? null));
  }
  /** How many elements lie in each of equally wide bins; without a gradient. Shape: N -> counts [bins], edges [bins + 1]. */
  histogram(options?: HistogramOptions): { readonly counts: T; readonly edges: T } {
    const { counts, edges } = histogram(this.node, options);
    return { counts: this.tensorOf(counts), edges: this.tensorOf(edges) };
  }
  /** i32 of integers and bools, where PyTorch has int64; it wraps around. */
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

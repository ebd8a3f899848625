import {
  checkOptions,
  currentSession,
  type DType,
  formatLayout,
  formatShape,
  type Layout,
  LayoutError,
  localShape,
  option,
  type OptionRules,
  printing,
  type Shape,
  type Tensor,
} from '@shardwise/core/extend';
import { redistribute } from '../layout/redistribute.ts';
import { checkLayout } from '../layout/check-layout.ts';
import { requireLayout } from '../layout/require-layout.ts';
import type { BinaryOp, OpCall } from './op-call.ts';
import { planRedistribution } from '../layout/plan-redistribution.ts';
import type { RedistributionPlan } from '../layout/redistribution.ts';
import { runOp, type Placed } from './run-op.ts';

/** A distributed tensor, or a number. */
export type DistributedOperand = DistributedTensor | number;

/** Options of reductions of a `DistributedTensor`. */
export interface DistributedReduceOptions {
  /** Whether reduced dims stay, with size 1. */
  readonly keepDim?: boolean;
}

export interface DistributedMatmulOptions {
  /** Whether the last two dims of the other tensor are transposed before the product. */
  readonly transposeB?: boolean;
}

/** Options of `DistributedTensor.crossEntropy`. */
export interface DistributedCrossEntropyOptions {
  /** How the losses are reduced. Default: the mean over the targets that are not ignored. */
  readonly reduction?: 'mean' | 'sum' | 'none';
  /** Targets of this value do not count. Default: -100. */
  readonly ignoreIndex?: number;
  /** The share of the target's probability that is distributed over all classes. Default: 0. */
  readonly labelSmoothing?: number;
}

const reduceRules: OptionRules<DistributedReduceOptions> = { keepDim: option.flag };
const matmulRules: OptionRules<DistributedMatmulOptions> = { transposeB: option.flag };
const crossEntropyRules: OptionRules<DistributedCrossEntropyOptions> = {
  reduction: option.oneOf('mean', 'sum', 'none'),
  ignoreIndex: option.integer(-(2 ** 31)),
  labelSmoothing: option.fraction,
};

/**
 * A tensor whose parts lie on the ranks of this rank's mesh, like PyTorch's DTensor. `shape` and ops refer to the whole
 * tensor. Each rank holds and computes its part, and the necessary messages enter the graph. All ranks must call the
 * same methods in the same order. Gradients are those of the whole, with the layouts of their values. Throws
 * LayoutError if an op does not fit the layouts. Letters in shapes have the same meaning as in Tensor.
 */
export class DistributedTensor {
  static {
    const prints = printing<DistributedTensor>((tensor, form) => {
      const { dtype, shape, layout } = tensor;
      const whole = `DistributedTensor ${dtype} ${formatShape(shape)}, ${formatLayout(layout)}`;
      return form === 'line' ? whole : `${whole}; this rank has\n${tensor.toLocal().toString()}`;
    });
    Object.defineProperties(this.prototype, prints);
  }

  readonly shape: Shape;
  readonly layout: Layout;
  readonly #local: Tensor;
  readonly #compared: Tensor;

  /**
   * `shape` is that of the whole. `compared` has the values of `local` and replaces it in all ops (default: `local`).
   * Throws LayoutError if the part is not the one that the layout gives to this rank.
   */
  constructor({ shape, layout, local, compared = local }: Placed & { readonly compared?: Tensor }) {
    const { mesh } = currentSession();
    checkLayout(layout, shape, mesh.axes);
    const expected = localShape(shape, layout, (axis) => mesh.group(axis));
    if (formatShape(expected) !== formatShape(local.shape)) {
      throw new LayoutError(
        {
          asked: `a part of shape ${formatShape(local.shape)} as ${formatLayout(layout)} of a tensor of shape ${formatShape(shape)}`,
          found: `a part of shape ${formatShape(expected)} on this rank`,
          todo: 'Give the part that torch.chunk gives, or the shape of the whole',
        },
        { shape, layout, part: local.shape, expected },
      );
    }
    this.shape = shape;
    this.layout = layout;
    this.#local = local;
    this.#compared = compared;
  }

  get dtype(): DType {
    return this.#local.dtype;
  }
  get ndim(): number {
    return this.shape.length;
  }

  /** Returns this rank's part. */
  toLocal(): Tensor {
    return this.#local;
  }
  /** Returns the plan that `redistribute` would carry out. Print it with formatRedistribution. */
  planTo(layout: Layout): RedistributionPlan {
    requireLayout('planTo', layout);
    const { axes } = currentSession().mesh;
    return planRedistribution(this.layout, layout, this.shape, axes, this.dtype);
  }
  /** Returns the same values in another layout, moved by the cheapest collectives. */
  redistribute(layout: Layout): DistributedTensor {
    const plan = this.planTo(layout);
    const local = redistribute(this.#compared, plan, currentSession().mesh);
    return new DistributedTensor({ shape: this.shape, layout, local });
  }
  /** Returns the whole tensor on every rank. */
  fullTensor(): Tensor {
    return this.redistribute({ dims: this.shape.map(() => []), partial: [] }).toLocal();
  }

  // Elementwise. Shape: N, N' -> broadcast(N, N').
  add(other: DistributedOperand): DistributedTensor {
    return this.#binary('add', other);
  }
  sub(other: DistributedOperand): DistributedTensor {
    return this.#binary('sub', other);
  }
  mul(other: DistributedOperand): DistributedTensor {
    return this.#binary('mul', other);
  }
  div(other: DistributedOperand): DistributedTensor {
    return this.#binary('div', other);
  }
  maximum(other: DistributedOperand): DistributedTensor {
    return this.#binary('maximum', other);
  }
  minimum(other: DistributedOperand): DistributedTensor {
    return this.#binary('minimum', other);
  }

  // Elementwise. Shape: N -> N.
  neg(): DistributedTensor {
    return this.#run({ op: 'neg' });
  }
  abs(): DistributedTensor {
    return this.#run({ op: 'abs' });
  }
  exp(): DistributedTensor {
    return this.#run({ op: 'exp' });
  }
  log(): DistributedTensor {
    return this.#run({ op: 'log' });
  }
  sqrt(): DistributedTensor {
    return this.#run({ op: 'sqrt' });
  }
  square(): DistributedTensor {
    return this.#run({ op: 'square' });
  }
  tanh(): DistributedTensor {
    return this.#run({ op: 'tanh' });
  }
  sigmoid(): DistributedTensor {
    return this.#run({ op: 'sigmoid' });
  }
  relu(): DistributedTensor {
    return this.#run({ op: 'relu' });
  }
  gelu(): DistributedTensor {
    return this.#run({ op: 'gelu' });
  }
  silu(): DistributedTensor {
    return this.#run({ op: 'silu' });
  }
  to(dtype: DType): DistributedTensor {
    return this.#run({ op: 'to', dtype });
  }
  ne(value: number): DistributedTensor {
    return this.#run({ op: 'ne', value });
  }

  // Reductions over `dims` (over all if omitted). Shape: N -> N without dims.
  /** The result over sharded dims is a partial sum. */
  sum(
    dims?: number | readonly number[],
    options: DistributedReduceOptions = {},
  ): DistributedTensor {
    checkOptions('sum', options, reduceRules);
    return this.#run({ op: 'sum', dims: this.#dims(dims), keepDim: options.keepDim ?? false });
  }
  mean(dims?: number | readonly number[], options?: DistributedReduceOptions): DistributedTensor {
    const count = this.#dims(dims).reduce((product, dim) => product * (this.shape[dim] ?? 1), 1);
    return this.sum(dims, options).div(count);
  }
  max(
    dims?: number | readonly number[],
    options: DistributedReduceOptions = {},
  ): DistributedTensor {
    checkOptions('max', options, reduceRules);
    return this.#run({ op: 'max', dims: this.#dims(dims), keepDim: options.keepDim ?? false });
  }
  /** Shape: N -> N. */
  softmax(dim = -1): DistributedTensor {
    return this.#run({ op: 'softmax', dim: this.#dim(dim) });
  }
  /** Shape: N -> N. */
  logSoftmax(dim = -1): DistributedTensor {
    return this.#run({ op: 'logSoftmax', dim: this.#dim(dim) });
  }
  /** Shape: this [.., D], weight [D], bias [D] -> [.., D]. */
  layerNorm(weight: DistributedTensor, bias: DistributedTensor, eps = 1e-5): DistributedTensor {
    return this.#run({ op: 'layerNorm', eps }, weight, bias);
  }
  /** Shape: this [.., D], weight [D] -> [.., D]. */
  rmsNorm(weight: DistributedTensor, eps = 1e-6): DistributedTensor {
    return this.#run({ op: 'rmsNorm', eps }, weight);
  }

  permute(order: readonly number[]): DistributedTensor {
    return this.#run({ op: 'permute', order: order.map((dim) => this.#dim(dim)) });
  }
  transpose(dimA: number, dimB: number): DistributedTensor {
    const [a, b] = [this.#dim(dimA), this.#dim(dimB)];
    const order = this.shape.map((_, dim) => dim);
    return this.permute(order.with(a, b).with(b, a));
  }
  /** Batch dims broadcast. Shape: this [.., M, K], other [.., K, N] -> [.., M, N]. */
  matmul(other: DistributedTensor, options: DistributedMatmulOptions = {}): DistributedTensor {
    checkOptions('matmul', options, matmulRules);
    return this.#run({ op: 'matmul', transposeB: options.transposeB ?? false }, other);
  }
  /** Looks up rows of `weight`, which may be sharded by rows. Shape: this i32 N, weight [V, D] -> [N.., D]. */
  embedding(weight: DistributedTensor): DistributedTensor {
    return this.#run({ op: 'embedding' }, weight);
  }
  /** The loss of functional.crossEntropy. Shape: this [N.., V], targets i32 [N..] -> [], or [N..] for 'none'. */
  crossEntropy(
    targets: DistributedTensor,
    options: DistributedCrossEntropyOptions = {},
  ): DistributedTensor {
    checkOptions('crossEntropy', options, crossEntropyRules);
    const { reduction = 'mean', ignoreIndex = -100, labelSmoothing = 0 } = options;
    const losses = this.#run({ op: 'crossEntropy', ignoreIndex, labelSmoothing }, targets);
    if (reduction === 'none') return losses;
    if (reduction === 'sum') return losses.sum();
    const counted = targets.ne(ignoreIndex).to('f32').sum();
    return losses.to('f32').sum().div(counted).to(losses.dtype);
  }

  #binary(op: BinaryOp, other: DistributedOperand): DistributedTensor {
    return typeof other === 'number'
      ? this.#run({ op: 'withNumber', binary: op, value: other })
      : this.#run({ op }, other);
  }

  #run(call: OpCall, ...others: readonly DistributedTensor[]): DistributedTensor {
    const inputs = [this, ...others].map((input): Placed => {
      const { shape, layout, dtype } = input;
      return { shape, layout, dtype, local: input.#compared };
    });
    return new DistributedTensor(runOp(call, inputs, currentSession().mesh));
  }

  #dim(dim: number): number {
    const normalized = dim < 0 ? dim + this.ndim : dim;
    if (Number.isInteger(dim) && normalized >= 0 && normalized < this.ndim) return normalized;
    throw new LayoutError(
      {
        asked: `dim ${dim} of a distributed tensor of shape ${formatShape(this.shape)}`,
        found: `${this.ndim} dims`,
        todo: `Use a dim from ${-this.ndim} to ${this.ndim - 1}`,
      },
      { dim, shape: this.shape },
    );
  }

  #dims(dims: number | readonly number[] | undefined): readonly number[] {
    if (dims === undefined) return this.shape.map((_, dim) => dim);
    const list = typeof dims === 'number' ? [dims] : dims;
    return [...new Set(list.map((dim) => this.#dim(dim)))].sort((a, b) => a - b);
  }
}

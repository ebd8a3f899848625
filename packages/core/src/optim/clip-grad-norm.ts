import { noGrad } from '../graph/create-node.ts';
import { addPending } from '../realize/pending.ts';
import { describeValue } from '../spec/describe-value.ts';
import { ConfigError } from '../spec/errors.ts';
import { allGather, sumOverAxes } from '../tensor/collectives.ts';
import { fromData, stack, zeros } from '../tensor/create.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { checkOptions } from '../spec/check-options.ts';
import * as option from '../spec/option-rules.ts';
import type { OptionRules } from '../spec/option-rules.ts';
import { tensorsOf } from './param-group.ts';
import { composed, withoutValues } from '../realize/small-values.ts';

/** Options of `clipGradNorm` and `totalGradNorm`. */
export interface GradNormOptions {
  /** 2, or Infinity for the largest absolute value. Default: 2. */
  readonly normType?: number;
}

const gradNormRules: OptionRules<GradNormOptions> = {
  normType: option.oneOf(2, Number.POSITIVE_INFINITY),
};

/**
 * Scales the gradients so that their norm, taken together, is at most `maxNorm` (torch.nn.utils.clip_grad_norm_).
 * Builds graph only: call it between backward() and step(). Returns the norm before scaling, which you can read after
 * step(). Shape: -> []. Throws ConfigError if maxNorm is not a number from 0, or `parameters` is not a list of
 * tensors.
 */
export function clipGradNorm(
  parameters: Iterable<Tensor>,
  maxNorm: number,
  options: GradNormOptions = {},
): Tensor {
  const list = tensorsOf('clipGradNorm', parameters);
  requireLimit(maxNorm);
  const total = totalGradNorm(list, options);
  clipGradsWithNorm(list, maxNorm, total);
  if (total.node.value === null) addPending(total.node);
  return total;
}

/**
 * The norm of all gradients together, including the parts of sharded parameters on other ranks; for these it is
 * a collective. 0 if there are no gradients. Shape: -> [].
 */
export function totalGradNorm(parameters: Iterable<Tensor>, options: GradNormOptions = {}): Tensor {
  checkOptions('a gradient norm', options, gradNormRules);
  const list = tensorsOf('a gradient norm', parameters);
  return composed(() => normOf(list, options));
}

/** The part of this rank in a sum over gradients. */
export interface OwnSum {
  /** Shape: []. */
  readonly own: Tensor;
  /** The mesh axes over which it must still be summed. */
  readonly axes: readonly string[];
}

/** The parts of this rank in a sum over the gradients of some parameters. */
export interface OwnSums {
  readonly sums: readonly OwnSum[];
  /** The mesh axis whose ranks have other parameters, over which what `sums` make together must still be summed. */
  readonly over: string | undefined;
}

/** Sums of squares of gradients. The caller must add them up over the ranks, in this order. */
export function ownSquares(parameters: Iterable<Tensor>): readonly OwnSums[] {
  return withoutValues(() =>
    noGrad(() =>
      gradientsByOwners(parameters).map(({ groups, over }) => ({
        sums: groups.map(({ axes, gradients }) => ({ axes, own: squaresOf(gradients) })),
        over,
      })),
    ),
  );
}

/** The norm of gradients, from their sums of squares. Shapes: each [] -> []. */
export function normOfSquares(sums: readonly Tensor[]): Tensor {
  return sumOf(sums).sqrt();
}

/** The factor that clips gradients of this norm. Shape: [] -> []. */
export function clipFactor(norm: Tensor, maxNorm: number): Tensor {
  const limit = fromData(Float32Array.of(maxNorm), [], 'f32');
  return limit.div(norm.add(1e-6)).minimum(1);
}

/** Multiplies gradients by a factor, in the graph. Shape: factor []. */
export function scaleGradients(parameters: Iterable<Tensor>, factor: Tensor): void {
  withoutValues(() =>
    noGrad(() => {
      for (const { part } of parameters) {
        const { grad } = part;
        if (grad !== null) part.setGradientNode(grad.mul(factor).node);
      }
    }),
  );
}

interface GradientsOfAxes {
  readonly axes: readonly string[];
  readonly gradients: Tensor[];
}

/** Gradients of parameters that all ranks have, or each others on the ranks of one axis. */
interface GradientsOfOwners {
  readonly groups: readonly GradientsOfAxes[];
  readonly over: string | undefined;
}

/**
 * Gradients by the axes whose ranks have other parts, apart for each axis whose ranks have other parameters: what these are
 * cut over differs between the ranks, and all of them take part in one sum.
 */
function gradientsByOwners(parameters: Iterable<Tensor>): GradientsOfOwners[] {
  const byOwners = new Map<string | undefined, Map<string, GradientsOfAxes>>();
  for (const { part } of parameters) {
    const { grad, shardedOver: axes } = part;
    const over = part.layout.only?.axis;
    // Ranks that do not have a parameter take part in the sum over those that do.
    if (grad === null && over === undefined) continue;
    const byAxes = byOwners.get(over) ?? new Map<string, GradientsOfAxes>();
    byOwners.set(over, byAxes);
    if (grad === null) continue;
    const key = axes.join(' ');
    const group = byAxes.get(key) ?? { axes, gradients: [] };
    group.gradients.push(grad);
    byAxes.set(key, group);
  }
  return [...byOwners].map(([over, byAxes]) => ({ groups: [...byAxes.values()], over }));
}

function normOf(parameters: Iterable<Tensor>, { normType = 2 }: GradNormOptions): Tensor {
  return noGrad(() => {
    const all = gradientsByOwners(parameters);
    if (normType === 2) {
      return normOfSquares(
        all.map(({ groups, over }) => {
          const squares = groups.map((each) => sumOverAxes(squaresOf(each.gradients), each.axes));
          return sumOverAxes(sumOf(squares), over === undefined ? [] : [over]);
        }),
      );
    }
    const parts = all.map(({ groups, over }) =>
      largestOver(
        groups.map((each) => largestOver(each.gradients.map(largest), each.axes)),
        over === undefined ? [] : [over],
      ),
    );
    return largestOver(parts, []);
  });
}

/** The sum of the squares of gradients, computed in f32, as squares of f16 may exceed f16. Shape: -> []. */
function squaresOf(gradients: readonly Tensor[]): Tensor {
  return sumOf(gradients.map((gradient) => gradient.to('f32').square().sum()));
}

/** Shapes: each [] -> []. */
function sumOf(values: readonly Tensor[]): Tensor {
  return values.length === 0 ? zeros([]) : stack(values).sum();
}

/** A gradient without elements has no largest one, and does not count. Shape: -> []. */
function largest(gradient: Tensor): Tensor {
  return gradient.numel === 0 ? zeros([]) : gradient.abs().max().to('f32');
}

/** The largest value of this rank, and of those of the axes. Shapes: each [] -> []. */
function largestOver(values: readonly Tensor[], axes: readonly string[]): Tensor {
  const own = values.length === 0 ? zeros([]) : stack(values).max();
  return axes.reduce((max, axis) => allGather(max.reshape([1]), axis, 0).max(), own);
}

/** Scales the gradients by maxNorm / (totalNorm + 1e-6) where that is below 1. Shape: totalNorm []. */
function clipGradsWithNorm(parameters: Iterable<Tensor>, maxNorm: number, totalNorm: Tensor): void {
  const list = tensorsOf('clipGradsWithNorm', parameters);
  requireLimit(maxNorm);
  const factor = withoutValues(() => noGrad(() => clipFactor(totalNorm, maxNorm)));
  scaleGradients(list, factor);
}

function requireLimit(maxNorm: number): void {
  if (option.nonNegative.fits(maxNorm)) return;
  throw new ConfigError(
    {
      asked: `gradients clipped to norm ${describeValue(maxNorm)}`,
      found: typeof maxNorm === 'number' ? 'no number from 0' : 'no number',
      todo: 'Use a number of at least 0',
    },
    { maxNorm },
  );
}

import { noGrad } from '../graph/create-node.ts';
import { noteSettings } from '../graph/step-settings.ts';
import { ownPlace } from '../rank.ts';
import { addPending } from '../realize/pending/pending.ts';
import { ConfigError, describeValue } from '../spec/errors.ts';
import { allGather, sumOverAxes } from '../tensor/collectives.ts';
import { fromData, stack, zeros } from '../tensor/create.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { partsOf, tensorsOf } from './param-group.ts';
import { composed, withoutValues } from '../realize/pending/small-values.ts';

/** Options of `clipGradNorm` and `totalGradNorm`. */
export interface GradNormOptions {
  /**
   * The p of the p-norm (sum of |g| ** p) ** (1 / p): a number above 0. Infinity gives the largest absolute value.
   * Default: 2.
   */
  readonly normType?: number;
}

const gradNormRules: OptionRules<GradNormOptions> = {
  normType: option.positive,
};

/**
 * Scales the gradients so that their norm, taken together, is at most `maxNorm` (torch.nn.utils.clip_grad_norm_).
 * Builds graph only: call it between backward() and step(). Returns the norm before scaling, which you can read after
 * step(). A norm that is not finite makes gradients 0 or NaN, as in PyTorch; to leave such a step out, on all ranks alike,
 * use `step({ skipIf: norm.isFinite().logicalNot() })`. Shape: -> []. Throws ConfigError if maxNorm is not a number from
 * 0, normType no number above 0, or `parameters` not a list of tensors.
 */
export function clipGradNorm(
  parameters: Iterable<Tensor>,
  maxNorm: number,
  options: GradNormOptions = {},
): Tensor {
  const list = tensorsOf('clipGradNorm', parameters);
  requireLimit(maxNorm);
  // Without a limit, the gradients stay as they are: the call only returns the norm.
  if (maxNorm < Infinity) {
    const { normType = 2 } = options;
    noteSettings(
      { call: 'clipGradNorm()', groups: [{ maxNorm, normType }] },
      partsOf(list),
      ownPlace,
    );
  }
  const total = totalGradNorm(list, options);
  clipGradsWithNorm(list, maxNorm, total);
  if (total.node.value === null) addPending(total.node);
  return total;
}

/**
 * The norm of all gradients together, including the parts of sharded parameters on other ranks. For sharded parameters
 * it is a collective. It is 0 if there are no gradients. Shape: -> []. Throws ConfigError as `clipGradNorm` does.
 */
export function totalGradNorm(parameters: Iterable<Tensor>, options: GradNormOptions = {}): Tensor {
  checkOptions('a gradient norm', options, gradNormRules);
  const list = tensorsOf('a gradient norm', parameters);
  return composed(() => normOf(list, options));
}

/** This rank's contribution to a sum over gradients. */
export interface OwnSum {
  /** Shape: []. */
  readonly own: Tensor;
  /** The mesh axes over which it must still be summed. */
  readonly axes: readonly string[];
}

/** This rank's contributions to a sum over the gradients of some parameters. */
export interface OwnSums {
  readonly sums: readonly OwnSum[];
  /** The mesh axis over which the total of `sums` must still be summed, because its ranks have different parameters. */
  readonly over: string | undefined;
}

/** The sums of the squares of gradients on this rank. The caller must add them up over the ranks, in this order. */
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

/**
 * The gradients of parameters that all ranks have (`over` is undefined), or of parameters that differ between the ranks
 * of the axis `over`.
 */
interface GradientsOfOwners {
  readonly groups: readonly GradientsOfAxes[];
  readonly over: string | undefined;
}

/**
 * Groups gradients by the axes over which their parameters are sharded. Parameters that differ between the ranks of an
 * axis are grouped separately for each such axis: their sharding differs between the ranks, but all of the ranks take
 * part in one sum.
 */
function gradientsByOwners(parameters: Iterable<Tensor>): GradientsOfOwners[] {
  const byOwners = new Map<string | undefined, Map<string, GradientsOfAxes>>();
  for (const { part } of parameters) {
    const { grad, shardedOver: axes } = part;
    const over = part.layout.only?.axis;
    // Ranks that do not have a parameter still take part in the sum over the ranks that do.
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
    if (normType === 2) return normOfSquares(sumsOfOwners(all, squaresOf));
    if (normType === Number.POSITIVE_INFINITY) return largestOfAll(all);
    // Powers of large or small values would leave the range of f32 without a word, so the largest becomes 1.
    const largestValue = largestOfAll(all);
    const unit = largestValue.gt(0).logicalAnd(largestValue.isFinite()).where(largestValue, 1);
    const powers = sumsOfOwners(all, (gradients) => powersOf(gradients, unit, normType));
    return sumOf(powers)
      .pow(1 / normType)
      .mul(unit);
  });
}

/** A sum over the gradients of all ranks, for the parameters of each kind of owners. Shapes: -> each []. */
function sumsOfOwners(
  all: readonly GradientsOfOwners[],
  ownSum: (gradients: readonly Tensor[]) => Tensor,
): Tensor[] {
  return all.map(({ groups, over }) => {
    const sums = groups.map(({ gradients, axes }) => sumOverAxes(ownSum(gradients), axes));
    return sumOverAxes(sumOf(sums), over === undefined ? [] : [over]);
  });
}

/** The largest absolute value of the gradients of all ranks. Shape: -> []. */
function largestOfAll(all: readonly GradientsOfOwners[]): Tensor {
  const parts = all.map(({ groups, over }) =>
    largestOver(
      groups.map((each) => largestOver(each.gradients.map(largest), each.axes)),
      over === undefined ? [] : [over],
    ),
  );
  return largestOver(parts, []);
}

/** The sum of (|g| / unit) ** exponent over gradients. Shape: unit [] -> []. */
function powersOf(gradients: readonly Tensor[], unit: Tensor, exponent: number): Tensor {
  return sumOf(gradients.map((gradient) => gradient.to('f32').abs().div(unit).pow(exponent).sum()));
}

/** The sum of the squares of gradients. It is computed in f32, because squares of f16 may exceed f16. Shape: -> []. */
function squaresOf(gradients: readonly Tensor[]): Tensor {
  return sumOf(gradients.map((gradient) => gradient.to('f32').square().sum()));
}

/** The sum of scalars, 0 if there are none. Shapes: each [] -> []. */
function sumOf(values: readonly Tensor[]): Tensor {
  return values.length === 0 ? zeros([]) : stack(values).sum();
}

/** The largest absolute value of a gradient. It is 0 for a gradient without elements. Shape: -> []. */
function largest(gradient: Tensor): Tensor {
  return gradient.numel === 0 ? zeros([]) : gradient.abs().max().to('f32');
}

/** The largest of these values on all ranks of the axes. Shapes: each [] -> []. */
function largestOver(values: readonly Tensor[], axes: readonly string[]): Tensor {
  const own = values.length === 0 ? zeros([]) : stack(values).max();
  return axes.reduce((max, axis) => allGather(max.reshape([1]), axis, 0).max(), own);
}

/** Scales the gradients by maxNorm / (totalNorm + 1e-6) if this factor is below 1. Shape: totalNorm []. */
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

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

export interface GradNormOptions {
  /** 2, or Infinity for the largest absolute value; default 2. */
  readonly normType?: number;
}

const gradNormRules: OptionRules<GradNormOptions> = {
  normType: option.oneOf(2, Number.POSITIVE_INFINITY),
};

/**
 * Scales the gradients so that their norm, taken together, is at most `maxNorm`
 * (torch.nn.utils.clip_grad_norm_). Builds graph only: call it between backward() and step().
 * Returns the norm before, which may be read after step(). Shape: -> []. Throws ConfigError for a maxNorm
 * that is no number from 0, and for what is no list of tensors.
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
 * The norm of all gradients together, those parts included that other ranks have of sharded
 * parameters: a collective for these. 0 where there are none. Shape: -> [].
 */
export function totalGradNorm(parameters: Iterable<Tensor>, options: GradNormOptions = {}): Tensor {
  checkOptions('a gradient norm', options, gradNormRules);
  const list = tensorsOf('a gradient norm', parameters);
  return composed(() => normOf(list, options));
}

function normOf(parameters: Iterable<Tensor>, { normType = 2 }: GradNormOptions): Tensor {
  const byAxes = new Map<string, { axes: readonly string[]; gradients: Tensor[] }>();
  for (const { part } of parameters) {
    const { grad, shardedOver } = part;
    const { only } = part.layout;
    // Ranks that do not have a parameter take part in the sum over those that do.
    if (grad === null && only === undefined) continue;
    const axes = only === undefined ? shardedOver : [...shardedOver, only.axis];
    const key = axes.join(' ');
    const group = byAxes.get(key) ?? { axes, gradients: [] };
    if (grad !== null) group.gradients.push(grad);
    byAxes.set(key, group);
  }
  return noGrad(() => {
    const parts = [...byAxes.values()].map(({ axes, gradients }) =>
      normType === 2 ? sumOfSquares(gradients, axes) : largest(gradients, axes),
    );
    if (parts.length === 0) return zeros([]);
    const all = stack(parts);
    return normType === 2 ? all.sum().sqrt() : all.max();
  });
}

/**
 * The sum of the squares of gradients whose other parts are on the other ranks of `axes`. It is computed in
 * f32, as squares of f16 may exceed f16. Shape: -> [].
 */
function sumOfSquares(gradients: readonly Tensor[], axes: readonly string[]): Tensor {
  const squares = gradients.map((gradient) => gradient.to('f32').square().sum());
  const own = squares.length === 0 ? zeros([]) : stack(squares).sum();
  return sumOverAxes(own, axes);
}

/** A gradient without elements has no largest one, and does not count. */
function largest(gradients: readonly Tensor[], axes: readonly string[]): Tensor {
  const filled = gradients.filter(({ numel }) => numel > 0);
  const largestOf = filled.map((gradient) => gradient.abs().max().to('f32'));
  const own = largestOf.length === 0 ? zeros([]) : stack(largestOf).max();
  return axes.reduce((max, axis) => allGather(max.reshape([1]), axis, 0).max(), own);
}

/** Scales the gradients by maxNorm / (totalNorm + 1e-6) where that is below 1. Shape: totalNorm []. */
function clipGradsWithNorm(parameters: Iterable<Tensor>, maxNorm: number, totalNorm: Tensor): void {
  const list = tensorsOf('clipGradsWithNorm', parameters);
  requireLimit(maxNorm);
  const scale = (): void => {
    const limit = fromData(Float32Array.of(maxNorm), [], 'f32');
    const factor = limit.div(totalNorm.add(1e-6)).minimum(1);
    for (const { part } of list) {
      const { grad } = part;
      if (grad !== null) part.setGradientNode(grad.mul(factor).node);
    }
  };
  withoutValues(() => noGrad(scale));
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

import { noGrad } from '../graph/node.ts';
import { addPending } from '../realize/pending.ts';
import { ConfigError } from '../spec/errors.ts';
import { fromData, stack, zeros } from '../tensor/create.ts';
import type { Tensor } from '../tensor/tensor.ts';

export interface GradNormOptions {
  /** 2, or Infinity for the largest absolute value; default 2. */
  readonly normType?: number;
}

/**
 * Scales the gradients so that their norm, taken together, is at most `maxNorm`
 * (torch.nn.utils.clip_grad_norm_). Builds graph only: call it between backward() and step().
 * Returns the norm before, which may be read after step(). Shape: -> []. Throws ConfigError for a negative maxNorm.
 */
export function clipGradNorm(
  parameters: Iterable<Tensor>,
  maxNorm: number,
  options: GradNormOptions = {},
): Tensor {
  const list = [...parameters];
  const total = totalGradNorm(list, options);
  clipGradsWithNorm(list, maxNorm, total);
  if (total.node.value === null) addPending(total.node, () => {});
  return total;
}

/** The norm of all gradients together; 0 where there are none. Shape: -> []. */
export function totalGradNorm(parameters: Iterable<Tensor>, options: GradNormOptions = {}): Tensor {
  const { normType = 2 } = options;
  if (normType !== 2 && normType !== Number.POSITIVE_INFINITY) {
    throw new ConfigError(
      {
        asked: `a gradient norm of type ${normType}`,
        found: 'another norm than 2 and Infinity',
        todo: 'Use 2 or Infinity',
      },
      { normType },
    );
  }
  return noGrad(() => {
    const gradients = [...parameters].flatMap(({ grad }) => grad ?? []);
    if (gradients.length === 0) return zeros([]);
    if (normType === 2)
      return stack(gradients.map((gradient) => gradient.square().sum()))
        .sum()
        .sqrt();
    return stack(gradients.map((gradient) => gradient.abs().max())).max();
  });
}

/** Scales the gradients by maxNorm / (totalNorm + 1e-6) where that is below 1. Shape: totalNorm []. */
export function clipGradsWithNorm(
  parameters: Iterable<Tensor>,
  maxNorm: number,
  totalNorm: Tensor,
): void {
  if (!(maxNorm >= 0)) {
    throw new ConfigError(
      {
        asked: `gradients clipped to norm ${maxNorm}`,
        found: 'a number below 0',
        todo: 'Use a number of at least 0',
      },
      { maxNorm },
    );
  }
  noGrad(() => {
    const limit = fromData(Float32Array.of(maxNorm), [], 'f32');
    const factor = limit.div(totalNorm.add(1e-6)).minimum(1);
    for (const parameter of parameters) {
      const { grad } = parameter;
      if (grad !== null) parameter.setGradientNode(grad.mul(factor).node);
    }
  });
}

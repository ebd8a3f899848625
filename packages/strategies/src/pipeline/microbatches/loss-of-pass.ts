import { ConfigError, type Tensor } from '@shardwise/core/extend';
import { parameterCount } from './parameter-count.ts';

/** The loss of a pass. Its arguments are the model's output, and then the targets: the last inputs of the pass. */
export interface LossOfPass {
  /** The number of targets before the first one with a default, and the number of all targets. */
  readonly least: number;
  readonly most: number;
  /** The number of inputs that the model takes. Null: as many as its forward() has parameters. */
  readonly modelInputs: number | null;
  readonly of: (output: unknown, targets: readonly unknown[]) => unknown;
}

/**
 * Returns the loss of a pipeline, or null if the model returns it. Throws ConfigError for a loss function without
 * parameters.
 */
export function lossOfPass(
  loss: ((...inputs: never[]) => Tensor) | undefined,
  modelInputs: number | null = null,
): LossOfPass | null {
  if (loss === undefined) return null;
  const count = parameterCount(String(loss)) ?? Number.POSITIVE_INFINITY;
  if (count === 0) {
    throw new ConfigError({
      asked: 'the loss of a pipeline',
      found: 'a function without parameters',
      todo: "Have it take the model's output first: loss: (output, targets) => …",
    });
  }
  return {
    least: Math.max(0, loss.length - 1),
    most: count - 1,
    modelInputs,
    of: (output, given): unknown => Reflect.apply(loss, undefined, [output, ...given]),
  };
}

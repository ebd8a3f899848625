import { ConfigError, type Tensor } from '@shardwise/core/extend';
import { parameterCount } from './parameter-count.ts';

/** The loss of a pass: it takes the model's output and the last inputs of the pass, its targets. */
export interface LossOfPass {
  /** How many targets it names before its first default, and how many it has at most. */
  readonly least: number;
  readonly most: number;
  /** How many of the inputs are the model's; null: as many as its forward() has parameters. */
  readonly modelInputs: number | null;
  readonly of: (output: unknown, targets: readonly unknown[]) => unknown;
}

/** The loss of a pipeline; null where the model returns it. Throws ConfigError for one that takes nothing. */
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

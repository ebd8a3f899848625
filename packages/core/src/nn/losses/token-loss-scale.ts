import { noGrad } from '../../graph/create-node.ts';
import { axisOf } from '../../mesh.ts';
import { currentSession } from '../../rank.ts';
import { DataError, describeValue } from '../../spec/errors.ts';
import { sumOverAxes } from '../../tensor/collectives.ts';
import { fromData } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';

/** Options of `tokenLossScale`. */
export interface TokenLossScaleOptions {
  /** Mesh axes whose ranks have other parts of the batch. Default: `dp`, if the mesh has it. */
  readonly axes?: readonly string[];
}

const tokenLossScaleRules: OptionRules<TokenLossScaleOptions> = {
  axes: option.listOf(option.axisName),
};

/**
 * The factor for the sum of token losses of each microbatch, with which the gradients are those of the mean over all
 * tokens of all microbatches and ranks. (A mean of means would give more weight to the tokens of short batches.)
 * `tokenCounts` has one number for each microbatch of this rank in the step, without tokens that the loss ignores.
 * Strategies average gradients over ranks, so the factor is ranks / tokens. A rank may have no tokens ([] or [0]). If
 * no rank has any, the factor is `ranks`. This is a collective. Shape: -> []. Throws DataError for what is no list of
 * counts.
 *
 * ```ts
 * const scale = nn.tokenLossScale(microbatches.map(({ tokens }) => tokens));
 * for (const { x, y } of microbatches) {
 *   nn.functional.crossEntropy(model.forward(x), y, { reduction: 'sum' }).mul(scale).backward();
 * }
 * ```
 */
export function tokenLossScale(
  tokenCounts: readonly number[],
  options: TokenLossScaleOptions = {},
): Tensor {
  checkOptions('tokenLossScale', options, tokenLossScaleRules);
  requireCounts(tokenCounts);
  const { mesh } = currentSession();
  const { axes = mesh.axes.filter(({ name }) => name === 'dp').map(({ name }) => name) } = options;
  const own = tokenCounts.reduce((sum, count) => sum + count, 0);
  const ranks = axes.reduce((product, axis) => product * axisOf(mesh, axis).size, 1);
  return noGrad(() => {
    const local = fromData(Int32Array.of(own), [], 'i32');
    const all = sumOverAxes(local, axes);
    // If no rank has a token, all losses are empty sums.
    return fromData(Float32Array.of(ranks), [], 'f32').div(all.maximum(1).to('f32'));
  });
}

function requireCounts(tokenCounts: readonly number[]): void {
  const given: unknown = tokenCounts;
  if (!Array.isArray(given)) {
    throw new DataError(
      {
        asked: `a loss over ${describeValue(given)} tokens`,
        found: 'no list of numbers',
        todo: 'Give a list with the number of tokens of each microbatch: nn.tokenLossScale([tokens])',
      },
      { tokenCounts },
    );
  }
  const areCounts = tokenCounts.every((count) => Number.isSafeInteger(count) && count >= 0);
  if (areCounts && tokenCounts.reduce((sum, count) => sum + count, 0) < 2 ** 31) return;
  throw new DataError(
    {
      asked: `a loss over ${tokenCounts.map(describeValue).join(' + ')} tokens`,
      found: 'numbers that are no counts, or more than an i32 holds',
      todo: 'Give the number of tokens of each microbatch',
    },
    { tokenCounts },
  );
}

import { type ModelDivision, Tensor } from '@shardwise/core/extend';
import { colwiseParallel, ownDraws, rowwiseParallel } from '@shardwise/strategies';
import { rowParts, type RowRule } from '../layers/row-parts.ts';

/** What an encoder says of its division. */
interface EncoderDivision {
  /** The path of the layers, such as `bert.encoder.layer`. */
  readonly layers: string;
  /** The member of a layer's attention that has the queries. Default: self. */
  readonly attention?: string;
  /** The number of heads. */
  readonly heads: number;
  /**
   * If labels are those of tokens, of which some do not count: the places of tokens, for ranks that have parts of rows. Default:
   * rows count.
   */
  readonly positions?: RowRule['positions'];
}

/**
 * Each rank has some of the heads, and some of the channels inside the perceptron (Shoeybi et al. 2019). The embeddings
 * and the head of a masked language model, which share a weight, are whole on each rank, since the vector of padding does
 * not train.
 */
export function encoderDivision({
  layers,
  attention = 'self',
  heads,
  positions,
}: EncoderDivision): ModelDivision {
  const layer = `${layers}.*`;
  const projection = colwiseParallel({ heads: [heads] });
  return {
    styles: () => ({
      [`${layer}.attention.${attention}`]: ownDraws(),
      [`${layer}.attention.${attention}.query`]: projection,
      [`${layer}.attention.${attention}.key`]: projection,
      [`${layer}.attention.${attention}.value`]: projection,
      [`${layer}.attention.output.dense`]: rowwiseParallel(),
      [`${layer}.intermediate.dense`]: colwiseParallel(),
      [`${layer}.output.dense`]: rowwiseParallel(),
    }),
    stages: [layer],
    units: [layer],
    ...(positions === undefined
      ? {}
      : {
          lossWeight: countedTokens,
          sequences: rowParts({ positions, labels: (labels) => labels }),
        }),
  };
}

/** The number of labels that count, or of rows if there are none. Shape: labels i32 [B, T] -> []. */
function countedTokens(inputIds: unknown, call: unknown): Tensor | number {
  const labels =
    typeof call === 'object' && call !== null ? Reflect.get(call, 'labels') : undefined;
  if (labels instanceof Tensor) return labels.ne(-100).to('f32').sum();
  return inputIds instanceof Tensor ? (inputIds.shape[0] ?? 0) : 0;
}

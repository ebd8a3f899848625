import { type ModelDivision, Tensor } from '@shardwise/core/extend';
import type { ParallelStyle } from '@shardwise/strategies';
import { vocabParallelEmbedding } from '@shardwise/strategies';
import { causalLossWeight, nextLabels } from '../layers/causal-output.ts';
import { positionsOf } from '../layers/positions.ts';
import { rowParts } from '../layers/row-parts.ts';
import { vocabParallelHead } from '../layers/vocab-parallel-head.ts';
import type { ForwardCall } from '../model/forward-call.ts';

/** What a language model says of its division. */
export interface CausalDivision {
  /** The path of the layers, such as `model.layers`. */
  readonly layers: string;
  /** The path of the embeddings of tokens. */
  readonly embedding: string;
  readonly vocabSize: number;
  /** The styles of the modules of a layer, by their paths in it. */
  readonly styles: Readonly<Record<string, ParallelStyle>>;
}

/** A vocabulary that the ranks do not divide stays whole on each of them. */
export function causalDivision({
  layers,
  embedding,
  vocabSize,
  styles,
}: CausalDivision): ModelDivision {
  const ofLayers = Object.entries(styles).map(([path, style]) => [`${layers}.*.${path}`, style]);
  return {
    styles: (ranks) => ({
      ...Object.fromEntries(ofLayers),
      ...(vocabSize % ranks === 0
        ? { [embedding]: vocabParallelEmbedding(), lm_head: vocabParallelHead() }
        : {}),
    }),
    stages: [`${layers}.*`],
    units: [`${layers}.*`],
    lossWeight: (inputIds, call) =>
      inputIds instanceof Tensor ? causalLossWeight(inputIds, callOf(call)) : 0,
    sequences: rowParts({ positions: positionsOf, labels: nextLabels }),
  };
}

function callOf(call: unknown): ForwardCall {
  return typeof call === 'object' && call !== null ? call : {};
}

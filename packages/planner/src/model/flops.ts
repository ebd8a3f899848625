import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { type ModelDescription, parameterCount } from './model-description.ts';
import {
  attentionWeights,
  feedForwardWeights,
  type TransformerDescription,
} from './transformer.ts';

/** How the operations of a model are counted. Figures of different conventions must not be compared. */
export interface FlopsConvention {
  /**
   * `products`: the weights by which a token is multiplied, and attention (Megatron, NeMo, torchtitan). `parameters and
   * attention`: 6P + 12Lhs with all parameters (llm-foundry). `parameters`: 6P with all parameters (Kaplan et al. 2020).
   * Default: `products`.
   */
  readonly counts?: 'products' | 'parameters and attention' | 'parameters';
  /** Whether the half of the scores that a causal mask hides counts. Default: `full`. */
  readonly attention?: 'full' | 'causal';
  /** The number of tokens of a sequence. Default: that of the model. */
  readonly sequence?: number;
}

const conventionRules: OptionRules<FlopsConvention> = {
  counts: option.oneOf('products', 'parameters and attention', 'parameters'),
  attention: option.oneOf('full', 'causal'),
  sequence: option.integer(1),
};

/** The elements of the weights of a layer by which one token is multiplied: of its active experts only. */
export function activeWeights(model: TransformerDescription): number {
  const { experts, hidden } = model;
  const networks = experts?.active ?? 1;
  const router = experts === null ? 0 : hidden * experts.count;
  return attentionWeights(model) + networks * feedForwardWeights(model) + router;
}

/** Of these, those of experts. 0 without experts. */
export function expertWeights(model: TransformerDescription): number {
  return model.experts === null ? 0 : model.experts.active * feedForwardWeights(model);
}

/** The operations of the scores and of the weighted sum of values in one layer, for one token of a forward pass. */
export function attentionFlops(
  { heads, headSize }: TransformerDescription,
  sequence: number,
): number {
  return 4 * heads * headSize * sequence;
}

/**
 * The floating-point operations for one token in a forward and a backward pass, which takes twice those of the forward
 * pass. Recomputation does not count: it is no work of the model.
 */
export function flopsPerToken(
  model: TransformerDescription,
  convention: FlopsConvention = {},
): number {
  checkOptions('flopsPerToken', convention, conventionRules);
  const { counts = 'products', attention = 'full', sequence = model.sequence } = convention;
  const seen = attention === 'causal' ? sequence / 2 : sequence;
  const scores = 3 * model.layers * attentionFlops(model, seen);
  switch (counts) {
    case 'products':
      return 6 * (model.layers * activeWeights(model) + model.vocabulary * model.hidden) + scores;
    case 'parameters and attention':
      return 6 * parameterCount(model) + scores;
    case 'parameters':
      return 6 * parameterCount(model);
    default:
      return counts satisfies never;
  }
}

/** The floating-point operations of one row of the batch in a forward and a backward pass. */
export function flopsPerRow(model: ModelDescription, sequence?: number): number {
  if (model.kind === 'transformer') {
    const tokens = sequence ?? model.sequence;
    return tokens * flopsPerToken(model, { sequence: tokens });
  }
  return model.modules.reduce((sum, { flops }) => sum + flops, 0) / model.rows;
}

/** How many operations of its peak a device computed. */
export interface Utilization {
  /** Model FLOPs utilization: the operations of the model over those of the peak. */
  readonly mfu: number;
  /** Hardware FLOPs utilization: with what the backward pass computed again. */
  readonly hfu: number;
  /** What was counted, in words. */
  readonly convention: string;
}

/** Says in words what `flopsPerToken` counts. */
export function describeConvention({
  counts = 'products',
  attention = 'full',
}: FlopsConvention): string {
  const what = {
    products: '6 × weights of products',
    'parameters and attention': '6 × parameters',
    parameters: '6 × parameters',
  }[counts];
  if (counts === 'parameters') return what;
  return `${what} + ${attention === 'full' ? '12' : '6'} × layers × hidden × sequence, for each token`;
}

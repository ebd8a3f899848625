import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';

/** The experts of each layer's feed-forward network. */
export interface ExpertsDescription {
  readonly count: number;
  /** The number of experts that compute each token. */
  readonly active: number;
  /**
   * The tokens of each expert, as a router has counted them, or in proportion to that. Default: unknown; each is taken to
   * deviate from the mean by 10 %.
   */
  readonly shares?: readonly number[];
}

/** The sizes of a transformer. */
export interface TransformerSizes {
  readonly name: string;
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  /** The number of heads of keys and values. Default: `heads`. */
  readonly keyValueHeads?: number;
  /** The width of a head. Default: hidden / heads. */
  readonly headSize?: number;
  /** The width of the feed-forward network. Default: 4 × hidden. */
  readonly feedForward?: number;
  readonly vocabulary: number;
  /** The number of tokens of a sequence. */
  readonly sequence: number;
  /** Whether positions have an embedding of `sequence` rows, and not rotations. Default: true. */
  readonly learnedPositions?: boolean;
  /** Whether the feed-forward network has a gate, as in Llama. Default: false. */
  readonly gated?: boolean;
  /** Whether products and norms add a bias. Default: true. */
  readonly biases?: boolean;
  /** Whether a norm follows the last layer. Default: true. */
  readonly finalNorm?: boolean;
  /** Whether the logits use the embedding of tokens. Default: true. */
  readonly tiedEmbeddings?: boolean;
  /** Whether layers drop elements in training, whose masks are kept. Default: true. */
  readonly dropout?: boolean;
  /** Default: every token has the same feed-forward network. */
  readonly experts?: ExpertsDescription;
}

/** A transformer with all its sizes and the parameters of each of its parts. */
export interface TransformerDescription extends Required<Omit<TransformerSizes, 'experts'>> {
  readonly kind: 'transformer';
  readonly experts: ExpertsDescription | null;
  readonly parameters: TransformerParameters;
}

/** The numbers of elements of the parameters of a transformer. */
export interface TransformerParameters {
  /** The embeddings of tokens and of positions. */
  readonly embedding: number;
  /** One layer without its experts. */
  readonly layer: number;
  /** All experts of one layer. 0 without experts. */
  readonly experts: number;
  readonly finalNorm: number;
  /** The product that makes logits. 0 if it uses the embedding of tokens. */
  readonly head: number;
}

const sizesRules: OptionRules<TransformerSizes> = {
  name: option.required(option.nonEmptyText),
  layers: option.required(option.integer(1, 10_000)),
  hidden: option.required(option.integer(1)),
  heads: option.required(option.integer(1)),
  keyValueHeads: option.integer(1),
  headSize: option.integer(1),
  feedForward: option.integer(1),
  vocabulary: option.required(option.integer(1)),
  sequence: option.required(option.integer(1)),
  learnedPositions: option.flag,
  gated: option.flag,
  biases: option.flag,
  finalNorm: option.flag,
  tiedEmbeddings: option.flag,
  dropout: option.flag,
  experts: option.object<ExpertsDescription>('{ count, active }'),
};

const expertsRules: OptionRules<ExpertsDescription> = {
  count: option.required(option.integer(1)),
  active: option.required(option.integer(1)),
  shares: option.listOf(option.nonNegative),
};

/** Describes a transformer by its sizes. Throws ConfigError for sizes that contradict each other. */
export function transformer(sizes: TransformerSizes): TransformerDescription {
  checkOptions('the sizes of a transformer', sizes, sizesRules);
  const { name, hidden, heads, keyValueHeads = heads, experts } = sizes;
  if (sizes.headSize === undefined && hidden % heads !== 0) {
    throw contradiction(name, `${heads} heads, which do not divide the hidden size ${hidden}`);
  }
  if (heads % keyValueHeads !== 0) {
    throw contradiction(
      name,
      `${keyValueHeads} heads of keys and values, which do not divide ${heads} heads`,
    );
  }
  if (experts !== undefined) {
    checkOptions(`the experts of ${name}`, experts, expertsRules);
    if (experts.active > experts.count) {
      throw contradiction(name, `${experts.active} active experts of ${experts.count}`);
    }
    const { shares } = experts;
    if (shares !== undefined && (shares.length !== experts.count || !shares.some(Boolean))) {
      throw contradiction(name, `shares of ${shares.length} experts, of ${experts.count}`);
    }
  }
  const full = {
    headSize: hidden / heads,
    feedForward: 4 * hidden,
    learnedPositions: true,
    gated: false,
    biases: true,
    finalNorm: true,
    tiedEmbeddings: true,
    dropout: true,
    ...sizes,
    keyValueHeads,
    experts: experts ?? null,
  };
  return { kind: 'transformer', ...full, parameters: parametersOf(full) };
}

/** The elements of the weights of a layer by which every token is multiplied, without its feed-forward network. */
export function attentionWeights({
  hidden,
  heads,
  keyValueHeads,
  headSize,
}: Pick<TransformerDescription, 'hidden' | 'heads' | 'keyValueHeads' | 'headSize'>): number {
  return 2 * hidden * headSize * (heads + keyValueHeads);
}

/** The elements of the weights of one feed-forward network, or of one expert. */
export function feedForwardWeights({
  hidden,
  feedForward,
  gated,
}: Pick<TransformerDescription, 'hidden' | 'feedForward' | 'gated'>): number {
  return (gated ? 3 : 2) * hidden * feedForward;
}

function parametersOf(
  full: Omit<TransformerDescription, 'kind' | 'parameters'>,
): TransformerParameters {
  const { hidden, headSize, heads, keyValueHeads, feedForward, gated, biases, experts } = full;
  const norm = biases ? 2 * hidden : hidden;
  const attentionBias = biases ? headSize * (heads + 2 * keyValueHeads) + hidden : 0;
  const network = feedForwardWeights(full) + (biases ? (gated ? 2 : 1) * feedForward + hidden : 0);
  const router = experts === null ? 0 : hidden * experts.count;
  return {
    embedding: (full.vocabulary + (full.learnedPositions ? full.sequence : 0)) * hidden,
    layer:
      attentionWeights(full) + attentionBias + 2 * norm + (experts === null ? network : router),
    experts: experts === null ? 0 : experts.count * network,
    finalNorm: full.finalNorm ? norm : 0,
    head: full.tiedEmbeddings ? 0 : full.vocabulary * hidden,
  };
}

function contradiction(name: string, found: string): ConfigError {
  return new ConfigError(
    {
      asked: `the sizes of the transformer ${name}`,
      found,
      todo: 'Give sizes that fit each other',
    },
    { model: name },
  );
}

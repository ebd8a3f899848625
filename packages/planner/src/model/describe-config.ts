import {
  ConfigError,
  constructParts,
  elementCount,
  type Module,
  replicated,
} from '@shardwise/core/extend';
import { architectures, modelFromConfig } from '@shardwise/models';
import { z } from 'zod';
import { type TransformerDescription, transformer } from './transformer.ts';

const size = z.number().int().positive();

/** The sizes that configs of transformers have, under any of the names that architectures use for them. */
const sizesSchema = z.object({
  model_type: z.string().min(1),
  hidden_size: size.optional(),
  n_embd: size.optional(),
  num_hidden_layers: size.optional(),
  n_layer: size.optional(),
  num_attention_heads: size.optional(),
  n_head: size.optional(),
  num_key_value_heads: size.nullish(),
  head_dim: size.nullish(),
  intermediate_size: size.optional(),
  n_inner: size.nullish(),
  max_position_embeddings: size.optional(),
  n_positions: size.optional(),
  num_local_experts: size.optional(),
  num_experts_per_tok: size.optional(),
  hidden_dropout_prob: z.number().optional(),
  resid_pdrop: z.number().optional(),
});

/**
 * Describes the model of a config.json of Hugging Face. The parameters are those of the model that `modelFromConfig`
 * makes of it, whose values are not computed. Throws ConfigError for a config that @shardwise/models does not know, and
 * for a model that is no transformer.
 */
export function describeConfig(json: unknown, sequence?: number): TransformerDescription {
  const parsed = sizesSchema.safeParse(json);
  const sizes = parsed.success ? parsed.data : undefined;
  const hidden = sizes?.hidden_size ?? sizes?.n_embd;
  const layers = sizes?.num_hidden_layers ?? sizes?.n_layer;
  const heads = sizes?.num_attention_heads ?? sizes?.n_head;
  if (sizes === undefined || hidden === undefined || layers === undefined || heads === undefined) {
    // A config of an unknown architecture is the more important mistake.
    modelOf(json, 1);
    throw new ConfigError(
      {
        asked: 'a plan for a config.json',
        found: 'no sizes of a transformer: hidden_size, num_hidden_layers and num_attention_heads',
        todo: 'Describe the model by a training pass: describeModule(model, inputs, { loss })',
      },
      {},
    );
  }
  // All layers have the same parameters, so two of them tell those of any number.
  const [counted, two] = [1, 2].map((count) => countParts(modelOf(json, count)));
  if (counted === undefined || two === undefined) throw new RangeError('two models were made');
  const positions = sizes.max_position_embeddings ?? sizes.n_positions ?? 1024;
  const gated = counted.names.some((name) => /gate_proj|\.w3\.|experts\.gate_up/.test(name));
  const count = sizes.num_local_experts;
  const description = transformer({
    name: sizes.model_type,
    layers,
    hidden,
    heads,
    keyValueHeads: sizes.num_key_value_heads ?? heads,
    headSize: sizes.head_dim ?? hidden / heads,
    feedForward: sizes.intermediate_size ?? sizes.n_inner ?? 4 * hidden,
    vocabulary: counted.vocabulary,
    sequence: sequence ?? positions,
    learnedPositions: counted.names.some((name) => /wpe|position_embeddings/.test(name)),
    gated,
    biases: counted.names.some((name) => /\d\..*\.bias$/.test(name)),
    tiedEmbeddings: counted.parts.head === 0,
    dropout: (sizes.resid_pdrop ?? sizes.hidden_dropout_prob ?? 0) > 0,
    ...(count === undefined ? {} : { experts: { count, active: sizes.num_experts_per_tok ?? 1 } }),
  });
  const { layer, experts, ...whole } = counted.parts;
  const ofLayer = { layer: two.parts.layer - layer, experts: two.parts.experts - experts };
  return { ...description, parameters: { ...whole, ...ofLayer } };
}

/** Makes the model with another number of layers. No parameter is kept, so it may be larger than this machine. */
function modelOf(json: unknown, layers: number): Module {
  return constructParts(
    (_, { shape }) => ({ bytes: new Uint8Array(), layout: replicated(shape), drawn: 0 }),
    () => modelFromConfig(withLayers(json, layers), architectures, { initialValues: 'zeros' }),
  );
}

function withLayers(json: unknown, layers: number): unknown {
  if (typeof json !== 'object' || json === null) return json;
  const changed = Object.entries(json).map(([key, value]: [string, unknown]) => {
    if (key === 'num_hidden_layers' || key === 'n_layer') return [key, layers];
    return [key, key === 'layer_types' && Array.isArray(value) ? value.slice(0, layers) : value];
  });
  return Object.fromEntries(changed);
}

type Part = keyof TransformerDescription['parameters'];

/** The elements of the parameters of a model by its parts; those of layers and experts for all layers together. */
function countParts(model: Module): {
  readonly names: readonly string[];
  readonly vocabulary: number;
  readonly parts: Readonly<Record<Part, number>>;
} {
  const parts: Record<Part, number> = { embedding: 0, layer: 0, experts: 0, finalNorm: 0, head: 0 };
  const names: string[] = [];
  let vocabulary = 0;
  for (const [name, { part }] of model.namedParameters()) {
    names.push(name);
    parts[partOf(name)] += elementCount(part.shape);
    if (/embed_tokens|wte|word_embeddings/.test(name)) vocabulary = part.shape[0] ?? 0;
  }
  return { names, vocabulary: Math.max(1, vocabulary), parts };
}

function partOf(name: string): Part {
  if (/\.experts\./.test(name)) return 'experts';
  if (/\.\d+\./.test(name)) return 'layer';
  if (/embed|wte|wpe/.test(name)) return 'embedding';
  return /norm|ln_f/i.test(name) ? 'finalNorm' : 'head';
}

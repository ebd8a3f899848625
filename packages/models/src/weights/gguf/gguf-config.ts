import { CheckpointError } from '@shardwise/core/extend';
import type { GgufFile, GgufValue } from './gguf-file.ts';

/** The architectures of files, and what Hugging Face calls them. */
const architectures: ReadonlyMap<
  string,
  { readonly modelType: string; readonly className: string }
> = new Map([
  ['llama', { modelType: 'llama', className: 'LlamaForCausalLM' }],
  ['qwen2', { modelType: 'qwen2', className: 'Qwen2ForCausalLM' }],
  ['qwen3', { modelType: 'qwen3', className: 'Qwen3ForCausalLM' }],
]);

/** The keys that are read, without the architecture before them. */
const knownKeys: ReadonlySet<string> = new Set([
  'block_count',
  'context_length',
  'embedding_length',
  'feed_forward_length',
  'attention.head_count',
  'attention.head_count_kv',
  'attention.key_length',
  'attention.value_length',
  'attention.layer_norm_rms_epsilon',
  'rope.freq_base',
  'rope.dimension_count',
  'rope.scaling.type',
  'rope.scaling.factor',
  'rope.scaling.original_context_length',
  'vocab_size',
]);

/** The numbers of heads, by which the rows of queries and keys are ordered. */
export interface HeadCounts {
  readonly query: number;
  readonly key: number;
}

/**
 * Makes the config.json of the metadata of a file. Throws CheckpointError for another architecture, for a key that is
 * missing, and for one that no class of this library computes, which it names.
 */
export function ggufConfig(file: GgufFile): Record<string, unknown> {
  const { metadata, path, tensors } = file;
  const kind = textOf(metadata.get('general.architecture'));
  const architecture = architectures.get(kind ?? '');
  if (kind === undefined || architecture === undefined) {
    throw refusal(
      path,
      `the architecture ${JSON.stringify(kind)}`,
      `Use a file of ${[...architectures.keys()].join(', ')}`,
    );
  }
  const keys = keysOf(file, kind);
  const heads = headCounts(file);
  const hidden = keys.number('embedding_length');
  const headDim = keys.optional('attention.key_length') ?? hidden / heads.query;
  const rotated = keys.optional('rope.dimension_count') ?? headDim;
  if (rotated !== headDim) {
    throw refusal(
      path,
      `${rotated} rotated channels of ${headDim} of a head`,
      'Use a model that rotates all channels',
    );
  }
  const [vocabulary] = tensors.get('token_embd.weight')?.shape ?? [];
  if (vocabulary === undefined)
    throw refusal(path, 'no token_embd.weight', 'Use a file of a whole model');
  const tokenId = (name: string): unknown =>
    metadata.get(`tokenizer.ggml.${name}_token_id`) ?? null;
  return {
    model_type: architecture.modelType,
    architectures: [architecture.className],
    vocab_size: vocabulary,
    hidden_size: hidden,
    intermediate_size: keys.number('feed_forward_length'),
    num_hidden_layers: keys.number('block_count'),
    num_attention_heads: heads.query,
    num_key_value_heads: heads.key,
    ...(headDim === hidden / heads.query ? {} : { head_dim: headDim }),
    max_position_embeddings: keys.number('context_length'),
    rms_norm_eps: keys.number('attention.layer_norm_rms_epsilon'),
    rope_theta: keys.optional('rope.freq_base') ?? 10000,
    ...ropeScaling(file, kind),
    ...(tensors.has('blk.0.attn_q.bias') && kind === 'llama' ? { attention_bias: true } : {}),
    tie_word_embeddings: !tensors.has('output.weight'),
    bos_token_id: tokenId('bos'),
    eos_token_id: tokenId('eos'),
  };
}

/** The numbers of heads of queries and of keys. Throws CheckpointError if they differ from layer to layer. */
export function headCounts(file: GgufFile): HeadCounts {
  const kind = textOf(file.metadata.get('general.architecture')) ?? '';
  const keys = keysOf(file, kind);
  const query = keys.number('attention.head_count');
  return { query, key: keys.optional('attention.head_count_kv') ?? query };
}

function ropeScaling({ metadata, path, tensors }: GgufFile, kind: string): Record<string, unknown> {
  if (tensors.has('rope_freqs.weight')) {
    throw refusal(
      path,
      'rope_freqs.weight, the frequencies of scaled rotary embeddings as numbers',
      'Use the folder of Hugging Face, whose config.json says how they are made',
    );
  }
  const type = textOf(metadata.get(`${kind}.rope.scaling.type`)) ?? 'none';
  const factor = metadata.get(`${kind}.rope.scaling.factor`);
  if (type === 'none') return {};
  const original = metadata.get(`${kind}.rope.scaling.original_context_length`);
  if ((type !== 'linear' && type !== 'yarn') || typeof factor !== 'number') {
    throw refusal(
      path,
      `${kind}.rope.scaling.type ${JSON.stringify(type)} with the factor ${String(factor)}`,
      'Use a file with linear or yarn scaling',
    );
  }
  const length = typeof original === 'number' ? { original_max_position_embeddings: original } : {};
  return { rope_scaling: { rope_type: type, factor, ...length } };
}

interface Keys {
  /** A positive number. Throws CheckpointError if it is missing. */
  number(key: string): number;
  optional(key: string): number | undefined;
}

function keysOf({ metadata, path }: GgufFile, kind: string): Keys {
  for (const [key, value] of metadata) {
    if (!key.startsWith(`${kind}.`) || knownKeys.has(key.slice(kind.length + 1))) continue;
    throw refusal(
      path,
      `the key "${key}" = ${shown(value)}, which the class for ${kind} does not compute`,
      'Use another file',
    );
  }
  const optional = (key: string): number | undefined => {
    const value = metadata.get(`${kind}.${key}`);
    if (value === undefined || (typeof value === 'number' && value > 0)) return value;
    throw refusal(
      path,
      `"${kind}.${key}" = ${shown(value)}`,
      'Use a file in which it is one positive number',
    );
  };
  return {
    optional,
    number(key) {
      const value = optional(key);
      if (value === undefined)
        throw refusal(path, `no "${kind}.${key}"`, 'Use a file of a whole model');
      return value;
    },
  };
}

function textOf(value: GgufValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function shown(value: GgufValue): string {
  return Array.isArray(value) ? `a list of ${value.length}` : String(value);
}

function refusal(path: string, found: string, todo: string): CheckpointError {
  return new CheckpointError({ asked: `to make a model of ${path}`, found, todo }, { path });
}

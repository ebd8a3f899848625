import { CheckpointError, type ModelFolder } from '@shardwise/core/extend';
import { type GgufFile, type GgufValue, readGguf } from './gguf-file.ts';
import { ROPE_FACTORS, ropeFactors, ropeScaling } from './gguf-rope.ts';

/** An architecture of files. */
interface GgufArchitecture {
  /** What Hugging Face calls it. */
  readonly modelType: string;
  readonly className: string;
  /** The keys that only files of this architecture have. */
  readonly keys: readonly string[];
  /** The keys of config.json that only this architecture has. */
  readonly settings: (keys: Keys, sizes: Sizes) => Readonly<Record<string, unknown>>;
}

interface Sizes {
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly headDim: number;
}

/**
 * The number whose root divides scores, which files do not have: the width of a head, but in the largest model of each
 * family, which has this number of layers, the hidden size by head (as in llama.cpp).
 */
function scoreScale({ layers, hidden, heads, headDim }: Sizes, largest: number): number {
  return layers === largest ? hidden / heads : headDim;
}

const architectures: ReadonlyMap<string, GgufArchitecture> = new Map([
  ['llama', like('llama', 'LlamaForCausalLM')],
  ['qwen2', like('qwen2', 'Qwen2ForCausalLM')],
  ['qwen3', like('qwen3', 'Qwen3ForCausalLM')],
  [
    'gemma2',
    {
      modelType: 'gemma2',
      className: 'Gemma2ForCausalLM',
      keys: ['attention.sliding_window', 'attn_logit_softcapping', 'final_logit_softcapping'],
      settings: (keys, sizes) => ({
        sliding_window: keys.number('attention.sliding_window'),
        attn_logit_softcapping: keys.optional('attn_logit_softcapping') ?? 50,
        final_logit_softcapping: keys.optional('final_logit_softcapping') ?? 30,
        query_pre_attn_scalar: scoreScale(sizes, 46),
      }),
    },
  ],
  [
    'gemma3',
    {
      modelType: 'gemma3_text',
      className: 'Gemma3ForCausalLM',
      keys: [
        'attention.sliding_window',
        'attention.sliding_window_pattern',
        'final_logit_softcapping',
        'rope.freq_base_swa',
      ],
      settings: (keys, sizes) => ({
        sliding_window: keys.optional('attention.sliding_window') ?? null,
        sliding_window_pattern: keys.optional('attention.sliding_window_pattern') ?? 6,
        final_logit_softcapping: keys.optional('final_logit_softcapping') ?? null,
        rope_local_base_freq: keys.optional('rope.freq_base_swa') ?? 10000,
        query_pre_attn_scalar: scoreScale(sizes, 62),
      }),
    },
  ],
]);

function like(modelType: string, className: string): GgufArchitecture {
  return { modelType, className, keys: [], settings: () => ({}) };
}

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
 * Makes the config.json of a file. Throws CheckpointError for a damaged file, for another architecture, for a key that is
 * missing, and for one that no class of this library computes, which it names.
 */
export async function ggufConfig(
  folder: ModelFolder,
  name: string,
): Promise<Record<string, unknown>> {
  const file = await readGguf(folder, name);
  const { metadata, path, tensors } = file;
  const kind = kindOf(file);
  const architecture = architectures.get(kind);
  if (architecture === undefined) {
    throw refusal(
      path,
      `the architecture ${JSON.stringify(kind)}`,
      `Use a file of ${[...architectures.keys()].join(', ')}`,
    );
  }
  const keys = keysOf(file, kind, architecture.keys);
  const heads = headCounts(file);
  const hidden = keys.number('embedding_length');
  const layers = keys.number('block_count');
  const headDim = keys.optional('attention.key_length') ?? hidden / heads.query;
  requireHeadDim(path, headDim, keys);
  const [vocabulary] = tensors.get('token_embd.weight')?.shape ?? [];
  if (vocabulary === undefined)
    throw refusal(path, 'no token_embd.weight', 'Use a file of a whole model');
  const tokenId = (role: string): unknown =>
    metadata.get(`tokenizer.ggml.${role}_token_id`) ?? null;
  const isUsual = kind !== 'gemma2' && kind !== 'gemma3' && headDim === hidden / heads.query;
  const theta = keys.optional('rope.freq_base') ?? 10000;
  const factors = tensors.has(ROPE_FACTORS) ? await ropeFactors(folder, name, file) : null;
  return {
    model_type: architecture.modelType,
    architectures: [architecture.className],
    vocab_size: vocabulary,
    hidden_size: hidden,
    intermediate_size: keys.number('feed_forward_length'),
    num_hidden_layers: layers,
    num_attention_heads: heads.query,
    num_key_value_heads: heads.key,
    ...(isUsual ? {} : { head_dim: headDim }),
    max_position_embeddings: keys.number('context_length'),
    rms_norm_eps: keys.number('attention.layer_norm_rms_epsilon'),
    rope_theta: theta,
    ...ropeScaling(file, kind, { factors, theta, headDim }),
    ...(tensors.has('blk.0.attn_q.bias') && kind === 'llama' ? { attention_bias: true } : {}),
    ...architecture.settings(keys, { layers, hidden, heads: heads.query, headDim }),
    tie_word_embeddings: !tensors.has('output.weight'),
    bos_token_id: tokenId('bos'),
    eos_token_id: tokenId('eos'),
  };
}

function kindOf({ metadata }: GgufFile): string {
  return textOf(metadata.get('general.architecture')) ?? '';
}

/** Whether the results of attention and of the perceptron have norms, all of whose weights are stored with 1 added. */
export function isGemma(file: GgufFile): boolean {
  return kindOf(file).startsWith('gemma');
}

/** Throws CheckpointError for heads of which a part is rotated, and for values of another width. */
function requireHeadDim(path: string, headDim: number, keys: Keys): void {
  const rotated = keys.optional('rope.dimension_count') ?? headDim;
  const ofValues = keys.optional('attention.value_length') ?? headDim;
  if (rotated === headDim && ofValues === headDim) return;
  throw refusal(
    path,
    `heads of width ${headDim} with ${rotated} rotated channels and values of width ${ofValues}`,
    'Use a model in which these are equal',
  );
}

/** The numbers of heads of queries and of keys. Throws CheckpointError if they differ from layer to layer. */
export function headCounts(file: GgufFile): HeadCounts {
  const kind = kindOf(file);
  const keys = keysOf(file, kind, architectures.get(kind)?.keys ?? []);
  const query = keys.number('attention.head_count');
  return { query, key: keys.optional('attention.head_count_kv') ?? query };
}

interface Keys {
  /** A positive number. Throws CheckpointError if it is missing. */
  number(key: string): number;
  optional(key: string): number | undefined;
}

function keysOf({ metadata, path }: GgufFile, kind: string, own: readonly string[]): Keys {
  for (const [key, value] of metadata) {
    const name = key.slice(kind.length + 1);
    if (!key.startsWith(`${kind}.`) || knownKeys.has(name) || own.includes(name)) continue;
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

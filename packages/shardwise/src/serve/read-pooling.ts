import { ConfigError, type ModelFolder } from '@shardwise/core/extend';
import { z } from 'zod';

/** How one vector is made of those of the tokens of a text. */
export interface Pooling {
  readonly kind: 'mean' | 'first';
  /** Whether the vector gets length 1. */
  readonly normalize: boolean;
  /** The most tokens of a text, at which Python cuts texts off. Undefined: those of the model. */
  readonly maxTokens: number | undefined;
}

const modulesSchema = z.array(z.object({ type: z.string(), path: z.string().default('') }));
const poolingSchema = z.record(z.string(), z.unknown());
const lengthSchema = z.object({ max_seq_length: z.int().positive().nullish() });

/**
 * Reads how the `modules.json` of sentence-transformers makes vectors of texts. A folder without it gets means of length
 * 1. Throws ConfigError for what is not known here, because other vectors would be wrong without a word.
 */
export async function readPooling(folder: ModelFolder): Promise<Pooling> {
  const modules = await parsed(folder, 'modules.json', modulesSchema);
  if (modules === undefined) return { kind: 'mean', normalize: true, maxTokens: undefined };
  const kinds = modules.map(({ type }) => type.slice(type.lastIndexOf('.') + 1));
  const unknown = kinds.find((kind) => !['Transformer', 'Pooling', 'Normalize'].includes(kind));
  if (unknown !== undefined) throw refusal(folder, `a module ${JSON.stringify(unknown)}`);
  const path = modules[kinds.indexOf('Pooling')]?.path;
  if (path === undefined) throw refusal(folder, 'no module "Pooling"');
  const config = await parsed(folder, `${path}/config.json`, poolingSchema);
  if (config === undefined) throw refusal(folder, `no ${path}/config.json`);
  const modes = Object.keys(config).filter(
    (key) => key.startsWith('pooling_mode_') && config[key] === true,
  );
  const normalize = kinds.includes('Normalize');
  const length = await parsed(folder, 'sentence_bert_config.json', lengthSchema);
  const maxTokens = length?.max_seq_length ?? undefined;
  if (modes.length === 1 && modes[0] === 'pooling_mode_mean_tokens') {
    return { kind: 'mean', normalize, maxTokens };
  }
  if (modes.length === 1 && modes[0] === 'pooling_mode_cls_token') {
    return { kind: 'first', normalize, maxTokens };
  }
  throw refusal(folder, `the pooling ${modes.join(' and ') || 'of no tokens'}`);
}

async function parsed<Value>(
  folder: ModelFolder,
  name: string,
  schema: z.ZodType<Value>,
): Promise<Value | undefined> {
  const text = await folder.readText(name);
  if (text === undefined) return undefined;
  try {
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw refusal(folder, `a ${name} of another form`, cause);
  }
}

function refusal({ place }: ModelFolder, found: string, cause?: unknown): ConfigError {
  return new ConfigError(
    {
      asked: `embeddings by the model of ${place}`,
      found,
      todo: 'Give a folder whose vectors are means of tokens, or that of the first token',
    },
    { place },
    cause === undefined ? {} : { cause },
  );
}

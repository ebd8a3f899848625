import { ConfigError } from '@shardwise/core/extend';
import { z } from 'zod';

/** The special tokens of a tokenizer, by what they are for. */
export interface SpecialTokens {
  /** The beginning of a text. */
  readonly bos?: string;
  /** The end of a text. */
  readonly eos?: string;
  readonly unk?: string;
  /** Between two texts. */
  readonly sep?: string;
  readonly pad?: string;
  /** Of whose place an encoder makes the vector of the whole text. */
  readonly cls?: string;
  /** What a masked language model is to fill in. */
  readonly mask?: string;
}

/** What `tokenizer_config.json` and `special_tokens_map.json` say and is used here. */
export interface TokenizerConfig {
  readonly specialTokens: SpecialTokens;
  readonly paddingSide: 'left' | 'right';
  readonly chatTemplate: string | ReadonlyMap<string, string> | undefined;
}

const token = z
  .union([z.string(), z.object({ content: z.string() }).transform(({ content }) => content)])
  .nullish();

const tokens = {
  bos_token: token,
  eos_token: token,
  unk_token: token,
  sep_token: token,
  pad_token: token,
  cls_token: token,
  mask_token: token,
};
const specialTokensMap = z.object(tokens);
const configFile = z.object({
  ...tokens,
  padding_side: z.enum(['left', 'right']).default('right'),
  chat_template: z
    .union([z.string(), z.array(z.object({ name: z.string(), template: z.string() }))])
    .nullish(),
});

/** Checks both files, either of which may be missing. Throws ConfigError for a field of another form. */
export function parseTokenizerConfig(
  config: unknown,
  specialTokens: unknown,
  name: string,
): TokenizerConfig {
  const map = parse(specialTokensMap, specialTokens ?? {}, `special_tokens_map.json of ${name}`);
  const file = parse(configFile, config ?? {}, `tokenizer_config.json of ${name}`);
  const roles = ['bos', 'eos', 'unk', 'sep', 'pad', 'cls', 'mask'] as const;
  const entries = roles.flatMap((role) => {
    const content = file[`${role}_token`] ?? map[`${role}_token`];
    return content === undefined || content === null ? [] : [[role, content] as const];
  });
  const { chat_template: template } = file;
  return {
    specialTokens: Object.fromEntries(entries),
    paddingSide: file.padding_side,
    chatTemplate: Array.isArray(template)
      ? new Map(template.map(({ name, template }) => [name, template]))
      : (template ?? undefined),
  };
}

function parse<T>(schema: z.ZodType<T>, value: unknown, asked: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = issue?.path.map(String).join('.') ?? '';
  throw new ConfigError(
    {
      asked,
      found: `${path || 'the file'}: ${issue?.message ?? 'another form'}`,
      todo: 'Give the file as transformers writes it',
    },
    { path },
  );
}

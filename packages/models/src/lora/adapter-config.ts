import { ConfigError } from '@shardwise/core/extend';
import { z } from 'zod';

/** What an adapter_config.json of PEFT says of an adapter. */
export interface AdapterConfig {
  readonly alpha: number;
  readonly dropout: number;
  readonly useRslora: boolean;
  readonly useDora: boolean;
  readonly modulesToSave: readonly string[];
  /** The alphas of layers that have another one, by their paths or the ends of these. */
  readonly alphaPattern: Readonly<Record<string, number>>;
}

/** Names of layers. PEFT takes a pattern for a regular expression, which is refused if it is more than a name. */
const layerName = z
  .string()
  .max(500)
  .regex(/^[\w.]+$/);
const names = z.array(z.string().max(500)).max(100_000);

const schema = z.object({
  peft_type: z.literal('LORA'),
  r: z.int().min(1).max(1_000_000),
  lora_alpha: z.number().positive(),
  lora_dropout: z.number().min(0).max(1).default(0),
  use_rslora: z.boolean().default(false),
  use_dora: z.boolean().default(false),
  modules_to_save: names.nullish(),
  alpha_pattern: z.record(layerName, z.number().positive()).nullish(),
  bias: z.literal('none').default('none'),
});

/** Keys that say where an adapter comes from, how it began to train, or which layers it has, as the tensors do, too. */
const neutralKeys: ReadonlySet<string> = new Set([
  ...Object.keys(schema.shape),
  'auto_mapping',
  'base_model_name_or_path',
  'ensure_weight_tying',
  'exclude_modules',
  'fan_in_fan_out',
  'inference_mode',
  'layers_pattern',
  'layers_to_transform',
  'megatron_core',
  'peft_version',
  'qalora_group_size',
  'rank_pattern',
  'revision',
  'runtime_config',
  'target_modules',
  'task_type',
]);

/** Ways to begin that leave the weights of the model as they are. */
const plainInitialValues: ReadonlySet<unknown> = new Set([true, false, 'gaussian', 'orthogonal']);

/** Reads the contents of an adapter_config.json. Throws ConfigError for what this package does not compute. */
export function adapterConfig(json: unknown): AdapterConfig {
  const parsed = schema.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw refused(String(issue?.path[0] ?? ''), json, issue?.message ?? 'it does not fit');
  }
  for (const [key, value] of Object.entries(z.record(z.string(), z.unknown()).parse(json))) {
    const isKnown =
      key === 'init_lora_weights' ? plainInitialValues.has(value) : asksNothing(value);
    if (!neutralKeys.has(key) && !isKnown) throw refused(key, json, 'LoRA of another kind');
  }
  const { data } = parsed;
  return {
    alpha: data.lora_alpha,
    dropout: data.lora_dropout,
    useRslora: data.use_rslora,
    useDora: data.use_dora,
    modulesToSave: data.modules_to_save ?? [],
    alphaPattern: data.alpha_pattern ?? {},
  };
}

function asksNothing(value: unknown): boolean {
  if (value === null || value === false) return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

function refused(key: string, json: unknown, found: string): ConfigError {
  const value: unknown =
    typeof json === 'object' && json !== null ? Reflect.get(json, key) : undefined;
  const shown = JSON.stringify(value)?.slice(0, 60) ?? 'missing';
  return new ConfigError(
    {
      asked: `an adapter with '${key}' ${shown} in adapter_config.json`,
      found,
      todo: "Use an adapter of PEFT's type LORA without biases, whose initial values left the model as it was",
    },
    { key, value },
  );
}

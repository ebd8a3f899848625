import { ConfigError } from 'shardwise';
import { z } from 'zod';
import { checkKeys, isValues, type Values } from '../config/key-table.ts';
import { type Elasticity, elasticitySchema } from './elasticity.ts';
import { deepspeedKeys } from './keys.ts';
import { resolveAuto, type TrainingArguments } from './resolve-auto.ts';

const count = z
  .int()
  .positive()
  .nullish()
  .transform((value) => value ?? undefined);
const dtype = z.enum(['fp16', 'bf16', 'fp32']).nullish();
const factor = z.number().positive();

const offload = z
  .object({
    device: z.enum(['none', 'cpu', 'nvme']).default('none'),
    nvme_path: z.string().nullish(),
  })
  .nullish();

const monitor = z
  .object({
    enabled: z.boolean().default(false),
    output_path: z.string().default(''),
    job_name: z.string().min(1).default('DeepSpeedJobName'),
  })
  .prefault({});

const settingsSchema = z.object({
  train_batch_size: count,
  train_micro_batch_size_per_gpu: count,
  gradient_accumulation_steps: count,
  steps_per_print: z.number().positive().nullish(),
  dataloader_drop_last: z.boolean().default(false),
  gradient_clipping: z.number().nonnegative().optional(),
  communication_data_type: dtype,
  gradient_predivide_factor: factor.default(1),
  prescale_gradients: z.boolean().default(false),
  optimizer: z
    .object({ type: z.string(), params: z.record(z.string(), z.unknown()).nullish() })
    .optional(),
  scheduler: z
    .object({ type: z.string(), params: z.record(z.string(), z.unknown()).nullish() })
    .optional(),
  fp16: z
    .object({
      enabled: z.boolean().default(false),
      loss_scale: z.number().nonnegative().default(0),
      initial_scale_power: z.int().nonnegative().default(16),
      loss_scale_window: z.int().positive().default(1000),
      hysteresis: z.int().positive().default(2),
      consecutive_hysteresis: z.boolean().default(false),
      min_loss_scale: factor.default(1),
    })
    .prefault({}),
  bf16: z
    .object({ enabled: z.boolean().default(false), check_grad_overflow: z.boolean().default(true) })
    .prefault({}),
  torch_autocast: z
    .object({
      enabled: z.boolean().default(false),
      dtype: z.enum(['torch.bfloat16', 'bfloat16', 'torch.float16', 'float16']).default('bfloat16'),
    })
    .prefault({}),
  data_types: z.object({ grad_accum_dtype: dtype }).prefault({}),
  zero_optimization: z
    .object({
      stage: z.literal([0, 1, 2, 3]).default(0),
      reduce_bucket_size: z.number().positive().optional(),
      zero_quantized_weights: z.boolean().default(false),
      zero_quantized_nontrainable_weights: z.boolean().default(false),
      zero_quantized_gradients: z.boolean().default(false),
      zero_hpz_partition_size: z.int().positive().default(1),
      offload_param: offload,
      offload_optimizer: offload,
    })
    .prefault({}),
  pipeline: z
    .object({
      stages: z.union([z.int().positive(), z.literal('auto')]).default('auto'),
      partition: z.enum(['best', 'parameters']).default('best'),
    })
    .optional(),
  elasticity: elasticitySchema.optional(),
  wall_clock_breakdown: z.boolean().default(false),
  flops_profiler: z
    .object({
      enabled: z.boolean().default(false),
      profile_step: z.int().nonnegative().default(1),
      module_depth: z.int().min(-1).default(-1),
      top_modules: z.int().positive().default(1),
      detailed: z.boolean().default(true),
      output_file: z.string().nullish(),
    })
    .prefault({}),
  tensorboard: monitor,
  csv_monitor: monitor,
  comms_logger: z
    .object({
      enabled: z.boolean().default(false),
      verbose: z.boolean().default(false),
      prof_all: z.boolean().default(true),
      prof_ops: z.array(z.string()).default([]),
      debug: z.boolean().default(false),
    })
    .prefault({}),
});

/** What a section of type and params says. */
interface Typed {
  readonly type: string;
  readonly params?: Record<string, unknown> | null | undefined;
}

type DtypeName = 'fp16' | 'bf16' | 'fp32';

/** What offload_param and offload_optimizer say. */
export interface OffloadSection {
  readonly device: 'none' | 'cpu' | 'nvme';
  readonly nvme_path?: string | null | undefined;
}

/** Where the sections tensorboard and csv_monitor write. */
export interface MonitorSection {
  readonly enabled: boolean;
  readonly output_path: string;
  /** The folder in output_path. */
  readonly job_name: string;
}

/** What the section comms_logger says. */
interface CommsSection {
  readonly enabled: boolean;
  readonly verbose: boolean;
  readonly prof_all: boolean;
  /** The operations that are logged if not all are, by their names in torch.distributed. */
  readonly prof_ops: readonly string[];
  readonly debug: boolean;
}

/** What the section flops_profiler says. */
export interface ProfilerSection {
  readonly enabled: boolean;
  /** The number of updates before the one that is profiled. */
  readonly profile_step: number;
  readonly module_depth: number;
  readonly top_modules: number;
  readonly detailed: boolean;
  readonly output_file?: string | null | undefined;
}

/** What a configuration says, with DeepSpeed's defaults. Keys that change nothing here are left out. */
export interface Settings {
  readonly train_batch_size?: number | undefined;
  readonly train_micro_batch_size_per_gpu?: number | undefined;
  readonly gradient_accumulation_steps?: number | undefined;
  readonly steps_per_print?: number | null | undefined;
  readonly dataloader_drop_last: boolean;
  readonly gradient_clipping?: number | undefined;
  readonly communication_data_type?: DtypeName | null | undefined;
  readonly gradient_predivide_factor: number;
  readonly prescale_gradients: boolean;
  readonly optimizer?: Typed | undefined;
  readonly scheduler?: Typed | undefined;
  readonly fp16: {
    readonly enabled: boolean;
    /** 0 means a scale that follows the gradients. */
    readonly loss_scale: number;
    readonly initial_scale_power: number;
    readonly loss_scale_window: number;
    readonly hysteresis: number;
    readonly consecutive_hysteresis: boolean;
    readonly min_loss_scale: number;
  };
  readonly bf16: { readonly enabled: boolean; readonly check_grad_overflow: boolean };
  readonly torch_autocast: { readonly enabled: boolean; readonly dtype: string };
  readonly data_types: { readonly grad_accum_dtype?: DtypeName | null | undefined };
  readonly zero_optimization: {
    readonly stage: 0 | 1 | 2 | 3;
    readonly reduce_bucket_size?: number | undefined;
    readonly zero_quantized_weights: boolean;
    readonly zero_quantized_nontrainable_weights: boolean;
    readonly zero_quantized_gradients: boolean;
    readonly zero_hpz_partition_size: number;
    readonly offload_param?: OffloadSection | null | undefined;
    readonly offload_optimizer?: OffloadSection | null | undefined;
  };
  readonly pipeline?:
    | { readonly stages: number | 'auto'; readonly partition: 'best' | 'parameters' }
    | undefined;
  readonly elasticity?: Elasticity | undefined;
  readonly wall_clock_breakdown: boolean;
  readonly flops_profiler: ProfilerSection;
  readonly tensorboard: MonitorSection;
  readonly csv_monitor: MonitorSection;
  readonly comms_logger: CommsSection;
}

/** A configuration that has been read. */
export interface ReadSettings {
  readonly settings: Settings;
  /** The configuration, with each "auto" resolved. */
  readonly values: Values;
  /** The keys whose "auto" was resolved, and to what. */
  readonly auto: readonly string[];
  /** The keys that change nothing here. */
  readonly harmless: readonly string[];
}

/**
 * Checks every key of a configuration, resolves "auto", and reads the values. Throws ConfigError with the path of the key.
 */
export function readSettings(
  from: string,
  given: Values,
  trainingArguments: TrainingArguments,
): ReadSettings {
  const harmless = checkKeys(from, deepspeedKeys, withoutOldZero(given));
  const { values, auto } = resolveAuto(given, trainingArguments);
  const result = settingsSchema.safeParse(values);
  if (!result.success) {
    const [issue] = result.error.issues;
    const path = issue?.path.join('.') ?? '';
    throw new ConfigError(
      {
        asked: `${path} of ${from}`,
        found: `${JSON.stringify(valueAt(values, issue?.path ?? []))}. ${issue?.message ?? ''}`,
        todo: 'Give a value of this kind',
      },
      { path },
      { cause: result.error },
    );
  }
  checkTogether(result.data);
  return { settings: result.data, values, auto, harmless };
}

/** Throws ConfigError for a switch in the place of the section of ZeRO, as DeepSpeed had it before 0.4. */
function withoutOldZero(given: Values): Values {
  const { zero_optimization: zero } = given;
  if (typeof zero !== 'boolean') return given;
  throw new ConfigError(
    {
      asked: `zero_optimization ${zero}`,
      found: 'the form of DeepSpeed before 0.4',
      todo: 'Write "zero_optimization": { "stage": 1 }',
    },
    { path: 'zero_optimization' },
  );
}

function valueAt(values: unknown, path: readonly PropertyKey[]): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return values;
  if (Array.isArray(values)) return valueAt(values[Number(key)], rest);
  return isValues(values) ? valueAt(values[String(key)], rest) : undefined;
}

function checkTogether(settings: Settings): void {
  const { fp16, bf16, torch_autocast: autocast, zero_optimization: zero } = settings;
  if (fp16.enabled && bf16.enabled) {
    throw together(
      'fp16.enabled',
      'bf16.enabled',
      'two dtypes of parameters',
      'Enable one of them',
    );
  }
  if (autocast.enabled && (fp16.enabled || bf16.enabled)) {
    const name = fp16.enabled ? 'fp16.enabled' : 'bf16.enabled';
    throw together(
      'torch_autocast.enabled',
      name,
      'two ways to compute in 16 bits',
      'Enable one of them',
    );
  }
  const { offload_param: parameters, offload_optimizer: optimizer } = zero;
  for (const [name, section] of Object.entries({
    offload_param: parameters,
    offload_optimizer: optimizer,
  })) {
    if (section?.device !== 'nvme' || typeof section.nvme_path === 'string') continue;
    const path = `zero_optimization.${name}.nvme_path`;
    throw new ConfigError(
      { asked: `${path} beside device nvme`, found: 'no path', todo: 'Name a folder of that disk' },
      { path },
    );
  }
  for (const [key, isSet] of Object.entries({
    zero_quantized_weights: zero.zero_quantized_weights,
    zero_quantized_nontrainable_weights: zero.zero_quantized_nontrainable_weights,
    zero_quantized_gradients: zero.zero_quantized_gradients,
    zero_hpz_partition_size: zero.zero_hpz_partition_size !== 1,
  })) {
    if (!isSet || zero.stage === 3) continue;
    throw together(
      `zero_optimization.${key}`,
      `zero_optimization.stage ${zero.stage}`,
      'parameters that each rank keeps whole, where DeepSpeed does nothing about the key',
      'Write stage 3, or remove the key',
    );
  }
  if ((parameters?.device ?? 'none') !== 'none' && zero.stage !== 3) {
    throw together(
      'zero_optimization.offload_param',
      `zero_optimization.stage ${zero.stage}`,
      'parameters that each rank keeps whole',
      'Write stage 3, in which ranks keep parts of parameters',
    );
  }
}

function together(first: string, second: string, found: string, todo: string): ConfigError {
  return new ConfigError(
    { asked: `${first} beside ${second}`, found, todo },
    { path: first, other: second },
  );
}

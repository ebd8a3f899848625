import { ConfigError } from 'shardwise';
import { isValues, type Values } from '../config/key-table.ts';

/**
 * What transformers' Trainer fills in where a configuration says "auto": its TrainingArguments, and the hidden size of the
 * model.
 */
export interface TrainingArguments {
  readonly perDeviceTrainBatchSize?: number;
  readonly gradientAccumulationSteps?: number;
  readonly maxGradNorm?: number;
  readonly learningRate?: number;
  readonly adamBeta1?: number;
  readonly adamBeta2?: number;
  readonly adamEpsilon?: number;
  readonly weightDecay?: number;
  readonly warmupSteps?: number;
  readonly maxSteps?: number;
  readonly fp16?: boolean;
  readonly bf16?: boolean;
  readonly hiddenSize?: number;
}

/** What an "auto" becomes. Undefined: the default of DeepSpeed. */
type Resolve = (given: TrainingArguments) => unknown;

const AUTO: Readonly<Record<string, Resolve>> = {
  train_batch_size: () => undefined,
  train_micro_batch_size_per_gpu: (given) => given.perDeviceTrainBatchSize,
  gradient_accumulation_steps: (given) => given.gradientAccumulationSteps,
  gradient_clipping: (given) => given.maxGradNorm,
  'optimizer.params.lr': (given) => given.learningRate,
  'optimizer.params.betas': ({ adamBeta1: first, adamBeta2: second }) =>
    first === undefined && second === undefined ? undefined : [first ?? 0.9, second ?? 0.999],
  'optimizer.params.eps': (given) => given.adamEpsilon,
  'optimizer.params.weight_decay': (given) => given.weightDecay,
  'scheduler.params.warmup_min_lr': () => undefined,
  'scheduler.params.warmup_max_lr': (given) => given.learningRate,
  'scheduler.params.warmup_num_steps': (given) => given.warmupSteps,
  'scheduler.params.total_num_steps': (given) => given.maxSteps,
  'fp16.enabled': (given) => given.fp16,
  'bf16.enabled': (given) => given.bf16,
  'zero_optimization.reduce_bucket_size': ({ hiddenSize: size }) =>
    size === undefined ? undefined : size * size,
  'zero_optimization.stage3_prefetch_bucket_size': ({ hiddenSize: size }) =>
    size === undefined ? undefined : Math.trunc(0.9 * size * size),
  'zero_optimization.stage3_param_persistence_threshold': ({ hiddenSize: size }) =>
    size === undefined ? undefined : 10 * size,
  'zero_optimization.allgather_bucket_size': () => undefined,
  'zero_optimization.stage3_max_live_parameters': () => undefined,
  'zero_optimization.stage3_max_reuse_distance': () => undefined,
};

/** Values for which "auto" is a word of DeepSpeed itself. */
const OWN = ['pipeline.stages', 'data_types.keep_in_fp32_modules'];

/** Keys without which a schedule would silently be another one. */
const NEEDED: Readonly<Record<string, string>> = {
  'scheduler.params.warmup_num_steps': 'warmupSteps',
  'scheduler.params.total_num_steps': 'maxSteps',
};

/**
 * Replaces each "auto" by what the training arguments say, or leaves the key out, which gives it DeepSpeed's default. Throws
 * ConfigError for an "auto" that nothing resolves, and for a value that differs from its training argument.
 */
export function resolveAuto(
  given: Values,
  trainingArguments: TrainingArguments,
): { readonly values: Values; readonly auto: readonly string[] } {
  const auto: string[] = [];
  const visit = (values: Values, above: readonly string[]): Values =>
    Object.fromEntries(
      Object.entries(values).flatMap(([key, value]) => {
        const path = [...above, key].join('.');
        if (isValues(value)) return [[key, visit(value, [...above, key])] as const];
        if (value === 'auto' && !OWN.includes(path)) {
          const resolved = resolve(path, trainingArguments);
          auto.push(
            `${path} = ${resolved === undefined ? 'the default' : JSON.stringify(resolved)}`,
          );
          return resolved === undefined ? [] : [[key, resolved] as const];
        }
        requireSame(path, value, AUTO[path]?.(trainingArguments));
        return [[key, value] as const];
      }),
    );
  return { values: visit(given, []), auto };
}

function resolve(path: string, given: TrainingArguments): unknown {
  const rule = Object.hasOwn(AUTO, path) ? AUTO[path] : undefined;
  if (rule === undefined) {
    const found = 'a key for which nothing says a value';
    throw new ConfigError({ asked: `"auto" for ${path}`, found, todo: 'Write a value' }, { path });
  }
  const value = rule(given);
  const name = NEEDED[path];
  if (value !== undefined || name === undefined) return value;
  const todo = `Write a number, or pass trainingArguments: { ${name}: … }`;
  throw new ConfigError({ asked: `"auto" for ${path}`, found: `no ${name}`, todo }, { path });
}

function requireSame(path: string, value: unknown, argument: unknown): void {
  if (argument === undefined || JSON.stringify(argument) === JSON.stringify(value)) return;
  throw new ConfigError(
    {
      asked: `${path} ${JSON.stringify(value)}`,
      found: `${JSON.stringify(argument)} among the training arguments`,
      todo: 'Write "auto" in the configuration, or the same value in both',
    },
    { path, value, argument },
  );
}

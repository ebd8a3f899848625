import { ConfigError, dist } from 'shardwise';
import { z } from 'zod';
import {
  checkKeys,
  isValues,
  type KeyTable,
  refused,
  refusedSection,
  type Values,
} from '../config/key-table.ts';
import { readConfigFile } from '../config/read-file.ts';
import type { AcceleratorOptions } from './accelerator.ts';

const nothing = [null, false, 'no', 'NO', ''] as const;
const byCommand = 'Remove it, and start the ranks by shardwise run';

/** The keys of the file that `accelerate config` writes. The number of ranks is a matter of `shardwise run`. */
const accelerateKeys: KeyTable = {
  compute_environment: refused('a service that starts machines', byCommand, 'LOCAL_MACHINE'),
  distributed_type: 'done',
  mixed_precision: 'done',
  gradient_accumulation_steps: 'done',
  fsdp_config: {
    keys: {
      fsdp_sharding_strategy: 'done',
      fsdp_reshard_after_forward: 'done',
      fsdp_offload_params: 'done',
      fsdp_version: 'harmless',
      fsdp_auto_wrap_policy: 'harmless',
      fsdp_transformer_layer_cls_to_wrap: 'harmless',
      fsdp_min_num_params: 'harmless',
      fsdp_backward_prefetch: 'harmless',
      fsdp_backward_prefetch_policy: 'harmless',
      fsdp_forward_prefetch: 'harmless',
      fsdp_state_dict_type: 'harmless',
      fsdp_sync_module_states: 'harmless',
      fsdp_use_orig_params: 'harmless',
      fsdp_cpu_ram_efficient_loading: 'harmless',
      fsdp_activation_checkpointing: refused(
        'layers that are recomputed',
        'Call nn.checkpoint in the model',
        ...nothing,
      ),
    },
  },
  deepspeed_config: {
    keys: {
      zero_stage: 'done',
      gradient_accumulation_steps: 'done',
      gradient_clipping: refused(
        'clipping by the configuration',
        'Call accelerator.clipGradNorm_ in the script',
        null,
        'none',
      ),
      offload_optimizer_device: refused('offloading', 'Use deepspeed.initialize', 'none', null),
      offload_param_device: refused('offloading', 'Use deepspeed.initialize', 'none', null),
      zero3_init_flag: 'harmless',
      zero3_save_16bit_model: 'harmless',
      deepspeed_multinode_launcher: 'harmless',
      deepspeed_hostfile: 'harmless',
      deepspeed_config_file: refused(
        'a file of DeepSpeed',
        'Give it to deepspeed.initialize',
        null,
      ),
    },
  },
  num_processes: 'harmless',
  num_machines: 'harmless',
  machine_rank: 'harmless',
  main_process_ip: 'harmless',
  main_process_port: 'harmless',
  main_training_function: 'harmless',
  gpu_ids: 'harmless',
  rdzv_backend: 'harmless',
  same_network: 'harmless',
  use_cpu: 'harmless',
  debug: 'harmless',
  enable_cpu_affinity: 'harmless',
  downcast_bf16: 'harmless',
  tpu_env: 'harmless',
  tpu_use_cluster: 'harmless',
  tpu_use_sudo: 'harmless',
  commands: 'harmless',
  command_file: 'harmless',
  mpirun_config: refusedSection('a start by mpirun', 'Start it by mpirun itself'),
  dynamo_config: refusedSection("PyTorch's compiler", 'Remove it: graphs are compiled anyway'),
  dynamo_backend: refused("PyTorch's compiler", 'Remove it', ...nothing),
  fp8_config: refusedSection('products of 8 bits', 'Write mixed_precision: bf16'),
  megatron_lm_config: refusedSection('Megatron', 'Use dist.tensorParallel and dist.pipeline'),
  parallelism_config: refusedSection('axes by a section', 'Use init({ mesh }) and dist.compose'),
};

/** accelerate writes switches as words, too. */
const flag = z.union([z.boolean(), z.enum(['true', 'false']).transform((text) => text === 'true')]);

const fileSchema = z.object({
  distributed_type: z.enum([
    'NO',
    'MULTI_CPU',
    'MULTI_GPU',
    'MULTI_NPU',
    'MULTI_XPU',
    'FSDP',
    'DEEPSPEED',
  ]),
  mixed_precision: z.enum(['no', 'fp16', 'bf16']).nullish(),
  gradient_accumulation_steps: z.int().positive().optional(),
  fsdp_config: z
    .object({
      fsdp_sharding_strategy: z
        .union([
          z.enum(['FULL_SHARD', 'SHARD_GRAD_OP', 'NO_SHARD']),
          z.literal(1),
          z.literal(2),
          z.literal(3),
        ])
        .optional(),
      fsdp_reshard_after_forward: z
        .union([flag, z.enum(['FULL_SHARD', 'SHARD_GRAD_OP', 'NO_SHARD'])])
        .optional(),
      fsdp_offload_params: flag.default(false),
    })
    .optional(),
  deepspeed_config: z
    .object({
      zero_stage: z.literal([0, 1, 2, 3]).default(2),
      gradient_accumulation_steps: z.int().positive().optional(),
    })
    .optional(),
});

/**
 * Reads the YAML file of `accelerate config`. Returns the options of an Accelerator that it means, but for its context. Throws
 * ConfigError with the path of the key.
 */
export async function readConfig(path: string): Promise<Omit<AcceleratorOptions, 'context'>> {
  const values = await readConfigFile(path);
  checkKeys(path, accelerateKeys, values);
  const result = fileSchema.safeParse(values);
  if (!result.success) {
    const [issue] = result.error.issues;
    const key = issue?.path.join('.') ?? '';
    throw new ConfigError(
      {
        asked: `${key} of ${path}`,
        found: issue?.message ?? '',
        todo: 'Give a value of this kind',
      },
      { path: key },
      { cause: result.error },
    );
  }
  const { distributed_type: type, mixed_precision: precision } = result.data;
  const { fsdp_config: sharding, deepspeed_config: zero } = result.data;
  requireOwnSection(path, type, values);
  const steps = result.data.gradient_accumulation_steps ?? zero?.gradient_accumulation_steps;
  const accumulation = steps === undefined ? {} : { gradientAccumulationSteps: steps };
  if (type !== 'FSDP' && type !== 'DEEPSPEED') {
    return { ...accumulation, mixedPrecision: precision ?? 'no' };
  }
  if (precision === 'fp16') {
    throw new ConfigError(
      {
        asked: `mixed_precision fp16 beside distributed_type ${type} of ${path}`,
        found: 'losses that the strategy does not scale',
        todo: 'Write bf16, or use deepspeed.initialize',
      },
      { path: 'mixed_precision' },
    );
  }
  const policy = precision === 'bf16' ? { mixedPrecision: { computeDtype: 'bf16' } as const } : {};
  if (type === 'FSDP') {
    const reshard =
      sharding?.fsdp_reshard_after_forward ?? sharding?.fsdp_sharding_strategy ?? true;
    const pages = sharding?.fsdp_offload_params === true ? { pages: dist.hostPages() } : {};
    if (reshard === 'NO_SHARD' || reshard === 3)
      return { ...accumulation, strategy: dist.ddp(policy) };
    const reshardAfterForward = reshard === true || reshard === 'FULL_SHARD' || reshard === 1;
    return { ...accumulation, strategy: dist.fsdp({ ...policy, ...pages, reshardAfterForward }) };
  }
  const stage = zero?.zero_stage ?? 2;
  const strategy = stage === 0 ? dist.ddp(policy) : dist.zero({ stage, ...policy });
  return { ...accumulation, strategy };
}

/** Throws ConfigError for a section of another type, which would do nothing. `accelerate config` leaves empty ones. */
function requireOwnSection(path: string, type: string, values: Values): void {
  for (const [section, owner] of [
    ['fsdp_config', 'FSDP'],
    ['deepspeed_config', 'DEEPSPEED'],
  ] as const) {
    const value = values[section];
    if (type === owner || !isValues(value) || Object.keys(value).length === 0) continue;
    throw new ConfigError(
      {
        asked: `${section} beside distributed_type ${type} of ${path}`,
        found: `settings that only distributed_type ${owner} reads`,
        todo: `Write distributed_type: ${owner}, or remove ${section}`,
      },
      { path: section, other: 'distributed_type' },
    );
  }
}

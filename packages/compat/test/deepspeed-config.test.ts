import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deepspeed } from '@shardwise/compat';
import { ConfigError, dist, init, nn, type RankContext } from 'shardwise';
import { pathsOf } from '../src/config/key-table.ts';
import { deepspeedKeys } from '../src/deepspeed/keys.ts';
import { readSettings } from '../src/deepspeed/settings.ts';
import { strategyOf } from '../src/deepspeed/strategy.ts';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

let context: RankContext;
beforeAll(async () => {
  context = await init();
});
afterAll(() => context.close());

/** The engine of a small model by a configuration. */
async function engineOf(
  config: string | object,
  options: Partial<deepspeed.InitializeOptions<nn.Linear, never, never>> = {},
) {
  vi.spyOn(console, 'log').mockImplementation(() => {});
  const { trainingArguments = {} } = options;
  return deepspeed.initialize({ model: new nn.Linear(2, 2), config, context, trainingArguments });
}

async function messageOf(config: string | object): Promise<string> {
  const error: unknown = await engineOf(config).then(
    () => expect.fail('no error'),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ConfigError);
  return error instanceof Error ? error.message : '';
}

async function fileOf(text: string): Promise<string> {
  const path = join(await mkdtemp(join(tmpdir(), 'compat-')), 'ds_config.json');
  await writeFile(path, text);
  return path;
}

const batch = { train_micro_batch_size_per_gpu: 4 };

describe('the files of configurations', () => {
  it('are JSON with comments and with commas at the end, as DeepSpeed reads them', async () => {
    const path = await fileOf(`{
      // comments of both kinds
      "train_batch_size": 6, # and this one
      "optimizer": { "type": "SGD", "params": { "lr": 1e-2, }, },
      /* "http://inside a text" */
    }`);
    const { engine } = await engineOf(path);
    expect(engine.trainBatchSize).toBe(6);
    expect(engine.getLr()).toEqual([0.01]);
  });

  it.each([
    ['hello', 'no object'],
    ['', 'nothing'],
    ['[1, 2]', 'no object'],
    ['{ "train_batch_size": 1, ', 'ds_config.json'],
    ['{ "train_batch_size": 1, "train_batch_size": 2 }', 'a key that stands twice, at line 1'],
    [
      '{ "optimizer": {',
      'no JSON: a comma, a quote, or the end of a list or section is missing at line 1',
    ],
  ])('refuses %s', async (text, message) => {
    expect(await messageOf(await fileOf(text))).toContain(message);
  });

  it('refuses a file that is not there', async () => {
    expect(await messageOf('/nowhere/ds_config.json')).toContain('/nowhere/ds_config.json');
  });
});

describe('the keys of a configuration', () => {
  it.each([
    [
      { trian_batch_size: 1 },
      'trian_batch_size of the configuration: no such key. Write train_batch_size',
    ],
    [
      { zero_optimization: { stage: 1, overlap_com: true } },
      'zero_optimization.overlap_com of the configuration: no such key in zero_optimization. Write zero_optimization.overlap_comm',
    ],
    [
      { offload_optimizer: { device: 'cpu' } },
      'Move it: it is zero_optimization.offload_optimizer',
    ],
    [{ fp16: true }, 'fp16 of the configuration: true in the place of a section'],
    [{ fp16: { enabled: 'yes' } }, 'fp16.enabled of the configuration: "yes"'],
    [{ zero_optimization: { stage: 4 } }, 'zero_optimization.stage of the configuration: 4'],
    [{ zero_optimization: true }, 'zero_optimization true: the form of DeepSpeed before 0.4'],
    [
      { zero_optimization: { cpu_offload: true } },
      'Write "offload_optimizer": { "device": "cpu" }',
    ],
    [{ train_batch_size: '8' }, 'train_batch_size of the configuration: "8"'],
    [{ gradient_clipping: -1 }, 'gradient_clipping of the configuration: -1'],
    [{ fp16: { enabled: true }, bf16: { enabled: true } }, 'fp16.enabled beside bf16.enabled'],
    [
      { zero_optimization: { offload_param: { device: 'cpu' } } },
      'zero_optimization.offload_param beside zero_optimization.stage 0',
    ],
    [
      { zero_optimization: { stage: 3, offload_param: { device: 'nvme' } } },
      'zero_optimization.offload_param.nvme_path',
    ],
    [
      { flops_profiler: { module_depth: -2 } },
      'flops_profiler.module_depth of the configuration: -2',
    ],
    [{ flops_profiler: { profile_steps: 3 } }, 'Write flops_profiler.profile_step'],
    [{ comms_logger: { enabled: true, prof_ops: ['all_redcue'] } }, 'Write all_reduce'],
    [
      { elasticity: { num_gpus_per_node: 8 } },
      'elasticity.num_gpus_per_node of the configuration: numbers of whole nodes',
    ],
    [{ elasticity: { enabled: true } }, 'train_micro_batch_size_per_gpu beside elasticity'],
    [{ wandb: { enabled: true } }, 'Write "tensorboard" or "csv_monitor" in its place'],
    [{ tensorboard: { job_name: 3 } }, 'tensorboard.job_name of the configuration: 3'],
    [{ data_efficiency: { enabled: true } }, 'data_efficiency'],
    [{ sparse_gradients: true }, 'sparse_gradients'],
    [{ gradient_allreduce_op: 'sum' }, 'Multiply the loss by the number of ranks'],
    [
      { zero_optimization: { stage: 2, zero_quantized_weights: true } },
      'zero_optimization.zero_quantized_weights beside zero_optimization.stage 2',
    ],
    [
      { zero_optimization: { stage: 3, zero_hpz_partition_size: 2 } },
      'zero_optimization.zero_hpz_partition_size 2: 1 data-parallel ranks',
    ],
    [
      { zero_optimization: { stage: 1 }, gradient_predivide_factor: 2 },
      'gradient_predivide_factor beside stage 1',
    ],
    [
      { communication_data_type: 'fp16', data_types: { grad_accum_dtype: 'fp32' } },
      'communication_data_type fp16 beside data_types.grad_accum_dtype fp32',
    ],
    [{ pipeline: { stages: 2 } }, 'Pass lossFunction'],
    [{ optimizer: { type: 'Adm' } }, 'Write Adam'],
    [{ optimizer: { type: 'Muon' } }, 'Pass optimizer: (parameters) =>'],
    [
      { optimizer: { type: 'Adam', params: { learning_rate: 1 } } },
      'optimizer.params.learning_rate of Adam: no such parameter',
    ],
    [{ optimizer: { type: 'Adam', params: { lr: '1e-3' } } }, 'optimizer.params.lr of Adam'],
    [
      { optimizer: { type: 'Adam', params: { max_grad_norm: 1 } } },
      'Write it as gradient_clipping',
    ],
    [
      { optimizer: { type: 'OneBitAdam' }, zero_optimization: { stage: 1 } },
      'optimizer.type OneBitAdam beside zero_optimization.stage 1',
    ],
    [
      { optimizer: { type: 'OneBitAdam' }, gradient_clipping: 1 },
      'gradient_clipping beside optimizer.type OneBitAdam',
    ],
  ])('%o is refused with the path of the key', async (config, message) => {
    expect(await messageOf({ ...batch, ...config })).toContain(message);
  });

  it('that ask for nothing are no errors', async () => {
    const { engine } = await engineOf({
      ...batch,
      flops_profiler: { enabled: false, profile_step: 3 },
      wandb: {},
      sparse_gradients: false,
      zero_optimization: { stage: 2, zero_hpz_partition_size: 1, mics_shard_size: -1 },
    });
    expect(engine.zeroOptimizationStage).toBe(2);
  });

  it('of ZeRO++ are options of the strategy', () => {
    const explained = (keys: object): string => {
      const { settings } = readSettings('c', { zero_optimization: { stage: 3, ...keys } }, {});
      const parameters = [
        { name: 'weight', shape: [64, 64], dtype: 'f32', requiresGrad: true },
      ] as const;
      const strategy = strategyOf(settings, 4, { files: [] });
      return dist.explain(strategy.plan({ parameters }, [{ name: 'dp', size: 4 }]));
    };
    const all = explained({
      zero_quantized_weights: true,
      zero_quantized_gradients: true,
      zero_hpz_partition_size: 2,
    });
    expect(all).toContain('\nparameters are sent in 8 bits');
    expect(all).toContain('\ngradients are sent in 4 bits');
    expect(all).toContain('the 2 ranks of a host');
    const frozen = explained({ zero_quantized_nontrainable_weights: true });
    expect(frozen).toContain('\nparameters that do not train are sent in 8 bits');
    expect(explained({})).not.toContain(' bits');
  });

  it('that change nothing are listed once, by rank 0', async () => {
    const log = vi.spyOn(console, 'log').mockImplementation(() => {});
    log.mockClear();
    await deepspeed.initialize({
      model: new nn.Linear(2, 2),
      context,
      config: {
        ...batch,
        memory_breakdown: true,
        zero_optimization: { stage: 3, overlap_comm: true },
      },
    });
    expect(log.mock.calls).toEqual([
      ['without effect here: memory_breakdown, zero_optimization.overlap_comm'],
    ]);
  });
});

describe('"auto"', () => {
  const config = {
    train_batch_size: 'auto',
    train_micro_batch_size_per_gpu: 'auto',
    gradient_accumulation_steps: 'auto',
    gradient_clipping: 'auto',
    optimizer: {
      type: 'AdamW',
      params: { lr: 'auto', betas: 'auto', eps: 'auto', weight_decay: 'auto' },
    },
    scheduler: {
      type: 'WarmupLR',
      params: { warmup_min_lr: 'auto', warmup_max_lr: 'auto', warmup_num_steps: 'auto' },
    },
    zero_optimization: { stage: 2, reduce_bucket_size: 'auto' },
    bf16: { enabled: 'auto' },
  };

  it('becomes what the training arguments say, and is shown', async () => {
    const trainingArguments = {
      perDeviceTrainBatchSize: 3,
      gradientAccumulationSteps: 2,
      maxGradNorm: 0.7,
      learningRate: 0.1,
      warmupSteps: 10,
      hiddenSize: 8,
      adamBeta2: 0.95,
    };
    const { engine, optimizer } = await engineOf(config, { trainingArguments });
    expect(vi.mocked(console.log).mock.calls.flat()[0]).toContain(
      '"auto": train_batch_size = the default; train_micro_batch_size_per_gpu = 3; gradient_accumulation_steps = 2; gradient_clipping = 0.7; optimizer.params.lr = 0.1; optimizer.params.betas = [0.9,0.95]',
    );
    expect(engine.trainBatchSize).toBe(6);
    expect(engine.gradientClipping).toBe(0.7);
    expect(engine.config['zero_optimization']).toEqual({ stage: 2, reduce_bucket_size: 64 });
    expect(optimizer?.paramGroups[0]).toMatchObject({ lr: 0, betas: [0.9, 0.95], weightDecay: 0 });
  });

  it('without an argument is the default, but not where it would be another schedule', async () => {
    expect(await messageOf(config)).toContain('pass trainingArguments: { warmupSteps: … }');
    const { engine } = await engineOf({
      ...config,
      scheduler: undefined,
      gradient_accumulation_steps: 1,
    });
    expect(engine.gradientClipping).toBe(1);
    expect(engine.getLr()).toEqual([1e-3]);
  });

  it('is refused where nothing says a value', async () => {
    const message = await messageOf({ ...batch, steps_per_print: 'auto' });
    expect(message).toContain('"auto" for steps_per_print');
  });

  it('is asked for where a value differs from its training argument', async () => {
    const options = { trainingArguments: { learningRate: 0.1 } };
    const optimizer = { type: 'Adam', params: { lr: 0.2 } };
    await expect(engineOf({ ...batch, optimizer }, options)).rejects.toThrow(
      'optimizer.params.lr 0.2: 0.1 among the training arguments',
    );
  });
});

describe('configurations of the documentation of DeepSpeed', () => {
  it('for 1-bit Adam run as they stand', async () => {
    const { engine, optimizer } = await engineOf({
      optimizer: {
        type: 'OneBitAdam',
        params: {
          lr: 0.001,
          betas: [0.8, 0.999],
          eps: 1e-8,
          weight_decay: 3e-7,
          freeze_step: 400,
          cuda_aware: false,
          comm_backend_name: 'nccl',
        },
      },
    });
    expect(optimizer?.paramGroups[0]).toMatchObject({
      lr: 0.001,
      betas: [0.8, 0.999],
      freezeStep: 400,
    });
    expect(engine.gradientAccumulationSteps).toBe(1);
    expect(() => engine.trainBatchSize).toThrow('train_batch_size');
  });

  it('for ZeRO-3 in fp16 run as they stand', async () => {
    const path = await fileOf(`{
    "zero_optimization": {
        "stage": 3,
    },
    "fp16": {
        "enabled": true
    },
    "optimizer": {
        "type": "AdamW",
        "params": {
            "lr": 0.001,
            "betas": [
                0.8,
                0.999
            ],
            "eps": 1e-8,
            "weight_decay": 3e-7
        }
    }
}`);
    const { engine, optimizer } = await engineOf(path);
    expect(engine.zeroOptimizationStage).toBe(3);
    expect(engine.lossScale).toBe(2 ** 16);
    expect(optimizer?.paramGroups[0]).toMatchObject({ weightDecay: 3e-7 });
  });
});

/** Keys that the configuration of DeepSpeed reads beside the sections that it declares as classes. */
const otherKeys = `
train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps managed_gradient_accumulation
steps_per_print dump_state disable_python_gc disable_allgather communication_data_type
seq_parallel_communication_data_type prescale_gradients gradient_predivide_factor gradient_allreduce_op
sparse_gradients gradient_clipping optimizer.type optimizer.params optimizer.legacy_fusion scheduler.type
scheduler.params torch_autocast.enabled torch_autocast.dtype torch_autocast.lower_precision_safe_modules
zero_allow_untested_optimizer zero_force_ds_cpu_optimizer flops_profiler.enabled flops_profiler.recompute_fwd_factor
flops_profiler.profile_step flops_profiler.module_depth flops_profiler.top_modules flops_profiler.detailed
flops_profiler.output_file wall_clock_breakdown memory_breakdown
autotuning use_data_before_expert_parallelism hybrid_engine pipeline.stages pipeline.partition
pipeline.seed_layers pipeline.activation_checkpoint_interval pipeline.pipe_partitioned
pipeline.grad_partitioned data_efficiency checkpoint.tag_validation checkpoint.load_universal
checkpoint.use_node_local_storage checkpoint.parallel_write data_types.grad_accum_dtype data_types.param_dtype
data_types.buffer_dtype data_types.keep_in_fp32_modules aio dataloader_drop_last log_level datastates_ckpt
weight_quantization compile timers tensor_parallel expert_parallel vocabulary_size graph_harvesting
elasticity.enabled elasticity.max_train_batch_size elasticity.micro_batch_sizes elasticity.min_gpus
elasticity.max_gpus elasticity.min_time elasticity.version elasticity.prefer_larger_batch
elasticity.ignore_non_elastic_batch_info elasticity.num_gpus_per_node elasticity.model_parallel_size
activation_checkpointing.partition_activations activation_checkpointing.number_checkpoints
activation_checkpointing.contiguous_memory_optimization
activation_checkpointing.synchronize_checkpoint_boundary activation_checkpointing.profile
activation_checkpointing.cpu_checkpointing comms_logger.enabled comms_logger.verbose comms_logger.prof_all
comms_logger.prof_ops comms_logger.debug wandb comet amp tensorboard.enabled
tensorboard.output_path tensorboard.job_name csv_monitor.enabled csv_monitor.output_path csv_monitor.job_name
compression_training eigenvalue progressive_layer_drop sparse_attention nebula curriculum_learning
zero_optimization.zeropp_loco_param zero_optimization.mics_shard_size
zero_optimization.mics_hierarchical_params_gather
`;

describe('the table of keys', () => {
  it('has each key of DeepSpeed', async () => {
    const text = await readFile(new URL('golden/deepspeed-keys.txt', import.meta.url), 'utf8');
    const paths = `${text} ${otherKeys}`.trim().split(/\s+/);
    expect(paths.length).toBeGreaterThan(150);
    const known = new Set(pathsOf(deepspeedKeys));
    expect(paths.filter((path) => !known.has(path))).toEqual([]);
  });
});

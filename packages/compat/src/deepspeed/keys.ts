import { type KeyTable, type KeyUse, refused, refusedSection } from '../config/key-table.ts';

const removeIt = 'Remove it';

/** Keys of DeepSpeed that make something that is not numbers faster or smaller on its devices. */
function harmless(...keys: readonly string[]): KeyTable {
  return Object.fromEntries(keys.map((key) => [key, 'harmless'] as const));
}

function done(...keys: readonly string[]): KeyTable {
  return Object.fromEntries(keys.map((key) => [key, 'done'] as const));
}

const offload: KeyTable = {
  ...done('device', 'nvme_path'),
  ...harmless(
    'pin_memory',
    'buffer_count',
    'buffer_size',
    'max_in_cpu',
    'pipeline_read',
    'pipeline_write',
    'fast_init',
  ),
  ...harmless('cpuadam_cores_perc'),
  ratio: refused('part of the optimizer states on the device', 'Offload all of them: ratio 1', 1),
  super_offload: refused('SuperOffload is made for one kind of processor', removeIt, false),
};

const oldOffload = (section: string): KeyUse =>
  refused('a key of DeepSpeed before 0.4', `Write "${section}": { "device": "cpu" }`, false, null);

const zeroOptimization: KeyTable = {
  ...done('stage', 'reduce_bucket_size'),
  ...done('zero_hpz_partition_size', 'zero_quantized_gradients'),
  ...done('zero_quantized_weights', 'zero_quantized_nontrainable_weights'),
  offload_param: { keys: offload },
  offload_optimizer: { keys: offload },
  ...harmless(
    'contiguous_gradients',
    'reduce_scatter',
    'use_multi_rank_bucket_allreduce',
    'allgather_partitions',
    'allgather_bucket_size',
    'overlap_comm',
    'compute_grad_norm',
    'load_from_fp32_weights',
    'sub_group_size',
    'stage3_prefetch_bucket_size',
    'stage3_param_persistence_threshold',
    'stage3_model_persistence_threshold',
    'stage3_max_live_parameters',
    'stage3_max_reuse_distance',
    'stage3_gather_16bit_weights_on_model_save',
    'stage3_module_granularity_threshold',
    'stage3_use_all_reduce_for_fetch_params',
    'stage3_allgather_sequential',
    'round_robin_gradients',
    'parameter_alignment',
    'memory_efficient_linear',
    'pipeline_loading_checkpoint',
    'override_module_apply',
    'log_trace_cache_warnings',
    'enable_sanity_checks',
    'save_muon_momentum_buffer_in_memory',
    'leaf_module',
    'cpu_offload_use_pin_memory',
    // Checkpoints fit any number of ranks in any case.
    'elastic_checkpoint',
    // Parameters that no rank uses stay as they are.
    'ignore_unused_parameters',
  ),
  cpu_offload: oldOffload('offload_optimizer'),
  cpu_offload_param: oldOffload('offload_param'),
  stage3_gather_fp16_weights_on_model_save: refused(
    'a key of DeepSpeed before 0.5',
    'Write stage3_gather_16bit_weights_on_model_save',
    false,
  ),
  legacy_stage1: refused('a key of DeepSpeed before 0.5', removeIt, false),
  mics_shard_size: refused('MiCS', 'Use dist.fsdp({ replicas }) in words of Shardwise', -1),
  mics_hierarchical_params_gather: refused('MiCS', removeIt, false),
  zeropp_loco_param: refused('corrections of gradients of 4 bits (LoCo)', removeIt, null),
  zenflow: refused('updates that wait for the host (ZenFlow)', removeIt, null),
};

const service = 'writing metrics to a service';
const serviceTodo = 'Write "tensorboard" or "csv_monitor" in its place';

/**
 * Every key of DeepSpeed's configuration (deepspeed/runtime/config.py of 0.19, and the sections that it reads), and what is done
 * with it. `optimizer.params` and `scheduler.params` are checked by their types.
 */
export const deepspeedKeys: KeyTable = {
  ...done(
    'train_batch_size',
    'train_micro_batch_size_per_gpu',
    'gradient_accumulation_steps',
    'steps_per_print',
    'dataloader_drop_last',
    'gradient_clipping',
    'communication_data_type',
    'gradient_predivide_factor',
    'prescale_gradients',
    'wall_clock_breakdown',
  ),
  optimizer: { keys: { ...done('type', 'params'), ...harmless('legacy_fusion') } },
  scheduler: { keys: done('type', 'params') },
  fp16: {
    keys: {
      ...done('enabled', 'loss_scale', 'initial_scale_power', 'loss_scale_window', 'hysteresis'),
      ...done('consecutive_hysteresis', 'min_loss_scale'),
      // Operands of products are converted wherever they are used.
      ...harmless('auto_cast'),
      fp16_master_weights_and_grads: refused(
        'master weights of 16 bits, where an optimizer updates f32 here',
        removeIt,
        false,
      ),
    },
  },
  bf16: {
    keys: {
      ...done('enabled', 'check_grad_overflow'),
      ...harmless('immediate_grad_update'),
      bf16_master_weights_and_grads: refused(
        'master weights of 16 bits, where an optimizer updates f32 here',
        removeIt,
        false,
      ),
      bf16_optimizer_states: refused('optimizer states of 16 bits', removeIt, false),
    },
  },
  bfloat16: refused('the name of bf16 in DeepSpeed before 0.6', 'Write bf16', null),
  torch_autocast: {
    keys: {
      ...done('enabled', 'dtype'),
      lower_precision_safe_modules: refused(
        'a list of modules, where autocast goes by operations here',
        'Remove it',
        null,
      ),
    },
  },
  amp: refusedSection("NVIDIA's apex", 'Use "torch_autocast", "bf16" or "fp16"'),
  data_types: {
    keys: {
      grad_accum_dtype: 'done',
      param_dtype: refused(
        'the dtype of the parameters that are loaded',
        'Use "bf16" or "fp16"',
        null,
      ),
      buffer_dtype: refused('buffers of another dtype than they are made', 'Remove it', null),
      keep_in_fp32_modules: refused('modules whose parameters stay f32', 'Remove it', 'auto', null),
    },
  },
  zero_optimization: { keys: zeroOptimization },
  activation_checkpointing: {
    keys: {
      partition_activations: refused(
        'recomputed activations that ranks of tensor parallelism divide',
        'Use dist.styles.sequenceParallel, which divides them anyway',
        false,
      ),
      cpu_checkpointing: refused(
        'what the model decides where it calls nn.checkpoint',
        'Write nn.checkpoint(forward, { pages: hostPages() }) in the model',
        false,
      ),
      ...harmless('contiguous_memory_optimization', 'number_checkpoints'),
      ...harmless('synchronize_checkpoint_boundary', 'profile'),
    },
  },
  pipeline: {
    keys: {
      ...done('stages', 'partition'),
      ...harmless('pipe_partitioned', 'grad_partitioned', 'use_reentrant'),
      seed_layers: refused(
        'seeds for each layer',
        'Call manualSeed() before the model is made',
        false,
      ),
      activation_checkpoint_interval: refused(
        'layers that are recomputed in groups',
        'Call nn.checkpoint in the model',
        0,
      ),
    },
  },
  elasticity: {
    keys: {
      ...done('enabled', 'max_train_batch_size', 'micro_batch_sizes', 'min_gpus', 'max_gpus'),
      ...done('prefer_larger_batch', 'ignore_non_elastic_batch_info'),
      num_gpus_per_node: refused(
        'numbers of whole nodes',
        'Give min_gpus and max_gpus, and start a number of ranks that suits',
        1,
      ),
      model_parallel_size: refused(
        'ranks that divide a model beside those of data',
        'Remove it: batches are of the data-parallel ranks alone',
        1,
      ),
      // Both versions give the same batches where a node has one GPU.
      ...harmless('min_time', 'version'),
    },
  },
  checkpoint: {
    keys: {
      // Ranks compare what they save, and each writes its parts, in any case.
      ...harmless('tag_validation', 'parallel_write', 'use_node_local_storage', 'load_universal'),
      ...harmless('writer', 'checkpoint_serialization'),
    },
  },
  ...harmless(
    'disable_allgather',
    'dump_state',
    'disable_python_gc',
    'memory_breakdown',
    'log_level',
    'vocabulary_size',
    'graph_harvesting',
    'zero_allow_untested_optimizer',
    'zero_force_ds_cpu_optimizer',
    'seq_parallel_communication_data_type',
    'aio',
    'timers',
    'nebula',
    'datastates_ckpt',
  ),
  gradient_allreduce_op: refused(
    'sums of gradients, where ranks take their mean here',
    'Multiply the loss by the number of ranks, and write "mean"',
    'mean',
    'MEAN',
    'Mean',
  ),
  managed_gradient_accumulation: refused(
    'accumulation by the script',
    'Use dist.parallelize and noSync in words of Shardwise',
    true,
  ),
  sparse_gradients: refused('gradients of embeddings by rows', removeIt, false),
  use_data_before_expert_parallelism: refused(
    'an order of the ranks of experts',
    'Order the axes of init({ mesh })',
    false,
  ),
  sequence_parallel_size: refused('Ulysses', 'Use dist.styles.sequenceParallel', 1),
  expert_parallel: refusedSection(
    'experts by a section',
    'Use dist.expertParallel() in words of Shardwise',
  ),
  tensor_parallel: refusedSection(
    'tensor parallelism by a section',
    'Use dist.tensorParallel() in words of Shardwise',
  ),
  flops_profiler: {
    keys: {
      ...done('enabled', 'profile_step', 'module_depth', 'top_modules', 'detailed', 'output_file'),
      // What a backward pass computes again is counted, and not estimated by a factor.
      ...harmless('recompute_fwd_factor'),
    },
  },
  comms_logger: { keys: done('enabled', 'verbose', 'prof_all', 'prof_ops', 'debug') },
  autotuning: refusedSection('starting runs to find settings', 'Remove it, and give the settings'),
  tensorboard: { keys: done('enabled', 'output_path', 'job_name') },
  csv_monitor: { keys: done('enabled', 'output_path', 'job_name') },
  wandb: refusedSection(service, serviceTodo),
  comet: refusedSection(service, serviceTodo),
  data_efficiency: refusedSection(
    'sampling by difficulty',
    'Give a sampler of your own to a DataLoader',
  ),
  curriculum_learning: refusedSection(
    'sampling by difficulty',
    'Give a sampler of your own to a DataLoader',
  ),
  progressive_layer_drop: refusedSection(
    'layers that are left out by chance',
    'Write it in the model',
  ),
  compression_training: refusedSection('compression of models', removeIt),
  weight_quantization: refusedSection(
    'weights in fewer bits',
    'Use quantizeModel of @shardwise/models',
  ),
  quantize_training: refusedSection(
    'weights in fewer bits',
    'Use quantizeModel of @shardwise/models',
  ),
  sparse_attention: refusedSection('attention of blocks', 'Write a mask in the model'),
  hybrid_engine: refusedSection(
    'generation with the same weights',
    'Use generate of @shardwise/models',
  ),
  eigenvalue: refusedSection('eigenvalues of layers', removeIt),
  compile: refusedSection("PyTorch's compiler", 'Remove it: graphs are compiled anyway'),
};

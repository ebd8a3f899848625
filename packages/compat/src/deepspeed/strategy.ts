import { filePages, type FilePages } from '@shardwise/core/node';
import { ConfigError, dist, optim } from 'shardwise';
import type { EngineOptimizer } from './optimizers.ts';
import type { OffloadSection, Settings } from './settings.ts';

type Half = 'f16' | 'bf16';

const dtypes = { fp16: 'f16', bf16: 'bf16', fp32: 'f32' } as const;

/** Where offloaded states of a model are kept. */
export interface Offloading {
  readonly parameters?: dist.PageStore;
  readonly states?: dist.PageStore;
  /** The files, whose folder goes when they are disposed of. */
  readonly files: readonly FilePages[];
}

/** Opens the pages that the section zero_optimization asks for. */
export async function openOffloading({ zero_optimization: zero }: Settings): Promise<Offloading> {
  const files: FilePages[] = [];
  const open = async (
    section: OffloadSection | null | undefined,
  ): Promise<dist.PageStore | undefined> => {
    if (section === null || section === undefined || section.device === 'none') return undefined;
    if (section.device === 'cpu') return dist.hostPages();
    const pages = await filePages(section.nvme_path ?? '');
    files.push(pages);
    return pages;
  };
  const parameters = await open(zero.offload_param);
  const states = await open(zero.offload_optimizer);
  return {
    ...(parameters === undefined ? {} : { parameters }),
    ...(states === undefined ? {} : { states }),
    files,
  };
}

/** The dtype of parameters and messages, or of products alone, as mixedPrecision of a strategy. */
export function mixedPrecisionOf(settings: Settings): dist.MixedPrecision | undefined {
  const { fp16, bf16, torch_autocast: autocast } = settings;
  const half: Half | undefined = fp16.enabled ? 'f16' : bf16.enabled ? 'bf16' : undefined;
  const reduceDtype = reduceDtypeOf(settings);
  if (half !== undefined) {
    return {
      parameterDtype: half,
      computeDtype: half,
      ...(reduceDtype === undefined ? {} : { reduceDtype }),
    };
  }
  if (!autocast.enabled) return undefined;
  return { computeDtype: autocast.dtype.endsWith('bfloat16') ? 'bf16' : 'f16' };
}

function reduceDtypeOf(settings: Settings): Half | 'f32' | undefined {
  const { communication_data_type: sent, data_types: types } = settings;
  const kept = types.grad_accum_dtype ?? undefined;
  const own = sent ?? undefined;
  if (own !== undefined && kept !== undefined && own !== kept) {
    throw new ConfigError(
      {
        asked: `communication_data_type ${own} beside data_types.grad_accum_dtype ${kept}`,
        found: 'gradients that are kept in the dtype in which they are reduced',
        todo: 'Write the same dtype in both, or one of them',
      },
      { path: 'communication_data_type', other: 'data_types.grad_accum_dtype' },
    );
  }
  const name = own ?? kept;
  return name === undefined ? undefined : dtypes[name];
}

/**
 * The strategy of a configuration: ddp() for stage 0, zero() for the others, and fsdp() where parameters leave the device, as
 * it alone has pages. Throws ConfigError for settings that do not fit together.
 */
export function strategyOf(
  settings: Settings,
  ranks: number,
  offloading: Offloading,
): ReturnType<typeof dist.ddp> {
  const { zero_optimization: zero, gradient_predivide_factor: predivide } = settings;
  const mixedPrecision = mixedPrecisionOf(settings);
  const policy = mixedPrecision === undefined ? {} : { mixedPrecision };
  if (zero.stage === 0) return dist.ddp({ ...policy, ...messagesOf(settings, ranks) });
  for (const [path, isSet] of [
    ['prescale_gradients', settings.prescale_gradients],
    ['gradient_predivide_factor', predivide !== 1],
    [
      'communication_data_type',
      mixedPrecision?.parameterDtype === undefined && reducesHalf(settings),
    ],
  ] as const) {
    if (!isSet) continue;
    const found = 'ZeRO, which divides after it has reduced, in the dtype of parameters';
    const todo = `Remove it, or write stage 0`;
    throw new ConfigError({ asked: `${path} beside stage ${zero.stage}`, found, todo }, { path });
  }
  const { parameters: pages } = offloading;
  const plusPlus = zero.stage === 3 ? zeroPlusPlusOf(settings, ranks) : {};
  if (pages !== undefined) return dist.fsdp({ ...policy, ...plusPlus, pages });
  const { stage, reduce_bucket_size: elements } = zero;
  const bytes = reducesHalf(settings) ? 2 : 4;
  return dist.zero({
    ...policy,
    ...plusPlus,
    stage,
    ...(elements === undefined || stage === 3 ? {} : { bucketBytes: elements * bytes }),
  });
}

/** The options of ZeRO++, of stage 3. Throws ConfigError for ranks of a host that do not divide all ranks. */
function zeroPlusPlusOf(
  { zero_optimization: zero }: Settings,
  ranks: number,
): dist.ZeroPlusPlusOptions {
  const hostRanks = zero.zero_hpz_partition_size;
  if (ranks % hostRanks !== 0) {
    const path = 'zero_optimization.zero_hpz_partition_size';
    throw new ConfigError(
      {
        asked: `${path} ${hostRanks}`,
        found: `${ranks} data-parallel ranks, which is not a multiple of it`,
        todo: 'Write the number of ranks of a host',
      },
      { path, ranks },
    );
  }
  return {
    zeroQuantizedWeights: zero.zero_quantized_weights,
    zeroQuantizedNontrainableWeights:
      zero.zero_quantized_weights || zero.zero_quantized_nontrainable_weights,
    zeroQuantizedGradients: zero.zero_quantized_gradients,
    zeroHpzPartitionSize: hostRanks,
  };
}

function reducesHalf(settings: Settings): boolean {
  const isHalf = settings.fp16.enabled || settings.bf16.enabled;
  const own = reduceDtypeOf(settings);
  return own === undefined ? isHalf : own !== 'f32';
}

/** How ranks of stage 0 send gradients. */
function messagesOf(settings: Settings, ranks: number): dist.DistributedDataParallelOptions {
  const { prescale_gradients: prescales, gradient_predivide_factor: factor } = settings;
  const gradientPredivideFactor = prescales ? ranks : factor;
  const predivide = gradientPredivideFactor === 1 ? {} : { gradientPredivideFactor };
  if (settings.fp16.enabled || settings.bf16.enabled) return predivide;
  const dtype = reduceDtypeOf(settings);
  if (dtype !== undefined && dtype !== 'f32' && gradientPredivideFactor !== 1) {
    const path = prescales ? 'prescale_gradients' : 'gradient_predivide_factor';
    const found = 'a message of 16 bits, which is divided by the number of ranks at once';
    const asked = `${path} beside communication_data_type`;
    throw new ConfigError({ asked, found, todo: 'Remove one of them' }, { path });
  }
  if (dtype === 'f16') return { commHook: dist.f16CompressHook };
  return dtype === 'bf16' ? { commHook: dist.bf16CompressHook } : predivide;
}

/** The loss scaler of a configuration: DeepSpeed skips steps whose gradients are not finite in bf16, too. */
export function lossScalerOf({ fp16, bf16 }: Settings): optim.LossScaler | undefined {
  if (!fp16.enabled)
    return bf16.enabled && bf16.check_grad_overflow ? new optim.LossScaler(1) : undefined;
  if (fp16.loss_scale > 0) return new optim.LossScaler(fp16.loss_scale);
  return new optim.DynamicLossScaler({
    initialScale: 2 ** fp16.initial_scale_power,
    scaleWindow: fp16.loss_scale_window,
    hysteresis: fp16.hysteresis,
    consecutiveHysteresis: fp16.consecutive_hysteresis,
    minScale: Math.min(fp16.min_loss_scale, 2 ** fp16.initial_scale_power),
  });
}

/** Keeps the states of an optimizer where the configuration says. */
export function offloaded(
  model: ConstructorParameters<typeof dist.OffloadedOptimizer>[0],
  optimizer: optim.Optimizer,
  { parameters, states }: Offloading,
): EngineOptimizer {
  if (states === undefined && parameters === undefined) return optimizer;
  const pages = states ?? dist.hostPages();
  return new dist.OffloadedOptimizer(model, optimizer, {
    states: pages,
    gradients: pages,
    ...(parameters === undefined ? {} : { parameters }),
  });
}

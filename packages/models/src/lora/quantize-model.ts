import {
  checkOptions,
  ConfigError,
  type Module,
  option,
  type OptionRules,
  requireModule,
} from '@shardwise/core/extend';
import { Conv1D } from '../layers/conv1d.ts';
import { emptyScaledWeight, QuantizedLinear, scaledWeight } from '../quantized/quantized-linear.ts';
import { replaceModules } from '../quantized/replace-modules.ts';
import { quantizeBlocks, type ScaledFormat, scaledFormats } from '../quantized/scaled-formats.ts';
import { requireApart } from './add-lora.ts';
import { type AdaptableLayer, rowsOf, shapeOfRows } from './lora-layer.ts';
import { targetLayers } from './target-layers.ts';

/** Options of `quantizeModel`. */
export interface QuantizeOptions {
  /** 4: NF4 (Dettmers et al. 2023). 8: whole numbers. In both, 64 elements have a scale in common. Default: 4. */
  readonly bits?: 4 | 8;
  /** Whether the scales are kept in 8 bits, too, as the paper has it. Default: true. */
  readonly doubleQuantization?: boolean;
  /** The layers, as in `addLora`. Default: 'all-linear', which leaves out the layer that makes the logits. */
  readonly targetModules?: readonly string[] | 'all-linear';
}

/** The rules of the options of quantizeModel. */
export const quantizeRules: OptionRules<QuantizeOptions> = {
  bits: option.oneOf(4, 8),
  doubleQuantization: option.flag,
  targetModules: option.either(option.listOf(option.nonEmptyText), option.oneOf('all-linear')),
};

/**
 * Keeps the weights of linear layers in 4 or 8 bits, frozen, for adapters on top (QLoRA, Dettmers et al. 2023). The
 * layers are replaced in place, one after the other, and what they were is freed. Call it before addLora and
 * `parallelize`. For a model of a folder, `fromPretrained` has it as the option `quantize`, with which no rank ever has
 * weights that are not quantized, and each has only its part. Ranks can divide the blocks by every strategy;
 * tensorParallel() needs layers with a multiple of 64 inputs, and throws LayoutError for others. Throws ConfigError as
 * addLora does, and for a weight that another module shares, and DTypeError for a weight with numbers that are not finite.
 *
 *     await quantizeModel(model, { bits: 4 });
 *     addLora(model, { targetModules: 'all-linear' });
 */
export async function quantizeModel<M extends Module>(
  model: M,
  options: QuantizeOptions = {},
): Promise<M> {
  requireModule('quantizeModel', model);
  checkOptions('quantizeModel', options, quantizeRules);
  requireApart('quantizeModel', model);
  const { layers, format, doubleQuantization } = plannedBlocks(model, options);
  for (const [path, layer] of layers) {
    const values = await rowsOf(layer).detach().to('f32').data();
    const floats = values instanceof Float32Array ? values : Float32Array.from(values, Number);
    const blocks = quantizeBlocks(format, floats, `${path}.weight`);
    const weight = scaledWeight(format, featuresOf(layer), blocks, doubleQuantization);
    replaceLayer(model, layer, weight);
  }
  return model;
}

/** As quantizeModel, in a model whose weights are read afterwards, such as one that is built in parts. */
export function quantizeBeforeWeights<M extends Module>(model: M, options: QuantizeOptions): M {
  const { layers, format, doubleQuantization } = plannedBlocks(model, options);
  for (const [, layer] of layers) {
    replaceLayer(model, layer, emptyScaledWeight(format, featuresOf(layer), doubleQuantization));
  }
  return model;
}

interface PlannedBlocks {
  readonly layers: readonly (readonly [path: string, layer: AdaptableLayer])[];
  readonly format: ScaledFormat;
  readonly doubleQuantization: boolean;
}

/** Returns the layers that get blocks. Throws ConfigError, before anything changes, for layers that cannot have them. */
function plannedBlocks(
  model: Module,
  { bits = 4, doubleQuantization = true, targetModules = 'all-linear' }: QuantizeOptions,
): PlannedBlocks {
  const layers = targetLayers(model, targetModules, 'quantizeModel');
  for (const [path, layer] of layers) {
    requireUnshared(model, path, layer);
    if (layer instanceof QuantizedLinear) throw quantizedError(path);
  }
  return { layers, format: scaledFormats[bits], doubleQuantization };
}

/** Shape: -> [out, in]. */
function featuresOf(layer: AdaptableLayer): readonly [number, number] {
  const [outFeatures = 0, inFeatures = 0] = shapeOfRows(layer);
  return [outFeatures, inFeatures];
}

/** Replaces a layer by one with blocks, and frees its weight. */
function replaceLayer(
  model: Module,
  layer: AdaptableLayer,
  weight: ReturnType<typeof scaledWeight>,
): void {
  const { bias } = layer;
  const isTransposedInFiles = layer instanceof Conv1D;
  const quantized = new QuantizedLinear({ ...weight, bias, isTransposedInFiles });
  replaceModules(model, new Map([[layer, quantized.train(layer.training)]]));
  layer.weight.dispose();
}

/** Throws ConfigError for a weight that another module shares, which would lose it. */
function requireUnshared(model: Module, path: string, { weight }: AdaptableLayer): void {
  const other = model
    .namedState()
    .find(([name, tensor]) => tensor === weight && !name.startsWith(`${path}.`));
  if (other === undefined) return;
  throw new ConfigError(
    {
      asked: `to quantize '${path}'`,
      found: `its weight is that of '${other[0]}', which needs it as it is`,
      todo: 'Leave it out of targetModules',
    },
    { path, name: other[0] },
  );
}

function quantizedError(path: string): ConfigError {
  return new ConfigError(
    {
      asked: `to quantize '${path}'`,
      found: 'a layer that is quantized already',
      todo: 'Call quantizeModel once',
    },
    { path },
  );
}

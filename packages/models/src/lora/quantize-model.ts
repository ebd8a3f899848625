import {
  checkOptions,
  ConfigError,
  type Module,
  option,
  type OptionRules,
  requireModule,
} from '@shardwise/core/extend';
import { requireApart } from './add-lora.ts';
import { type AdaptableLayer, rowsOf } from './lora-layer.ts';
import { QuantizedLinear, quantizeWeight } from '../quantized/quantized-linear.ts';
import { replaceModules } from '../quantized/replace-modules.ts';
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

const rules: OptionRules<QuantizeOptions> = {
  bits: option.oneOf(4, 8),
  doubleQuantization: option.flag,
  targetModules: option.either(option.listOf(option.nonEmptyText), option.oneOf('all-linear')),
};

/**
 * Keeps the weights of linear layers in 4 or 8 bits, frozen, for adapters on top (QLoRA, Dettmers et al. 2023). The
 * layers are replaced in place, one after the other, and what they were is freed. Call it before addLora and
 * `parallelize`. Ranks can divide the blocks by fsdp(), zero() or pipeline(); a plan of tensorParallel() that cuts such a
 * layer throws LayoutError. Throws ConfigError as addLora does, and for a weight that another module shares.
 *
 *     await quantizeModel(model, { bits: 4 });
 *     addLora(model, { targetModules: 'all-linear' });
 */
export async function quantizeModel<M extends Module>(
  model: M,
  options: QuantizeOptions = {},
): Promise<M> {
  requireModule('quantizeModel', model);
  checkOptions('quantizeModel', options, rules);
  const { bits = 4, doubleQuantization = true, targetModules = 'all-linear' } = options;
  requireApart('quantizeModel', model);
  const layers = targetLayers(model, targetModules);
  for (const [path, layer] of layers) requireUnshared(model, path, layer);
  for (const [path, layer] of layers) {
    if (layer instanceof QuantizedLinear) throw quantizedError(path);
    const weight = await quantizeWeight(rowsOf(layer), bits, doubleQuantization);
    const quantized = new QuantizedLinear({ ...weight, bias: layer.bias }).train(layer.training);
    replaceModules(model, new Map([[layer, quantized]]));
    layer.weight.dispose();
  }
  return model;
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

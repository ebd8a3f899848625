import {
  ConfigError,
  currentSession,
  type Module,
  type Named,
  noGrad,
  type Parameter,
  requireModule,
} from '@shardwise/core/extend';
import { requireApart } from './add-lora.ts';
import { isHeld, type LoraLayer, loraLayers, store, updateOf } from './lora-layer.ts';
import { replaceModules } from '../quantized/replace-modules.ts';

type Change = (layer: LoraLayer, weight: Parameter) => void;

/**
 * Adds the adapters to the weights of their layers, so that forward passes cost what they cost without adapters. The
 * adapters stay, but do not compute; unmergeLora takes them out of the weights again. It works under every strategy, and
 * is a collective there. Throws ConfigError for a model without adapters, for one that is merged, for weights that are
 * kept in 8 or 4 bits, and for a weight that a module without adapter shares, because that would change, too.
 */
export async function mergeLora(model: Module): Promise<void> {
  const layers = layersIn('mergeLora', model, 'apart');
  requireUntied(model, layers);
  await change(layers, (layer, weight) => {
    const sum = layer.weightRows(null).to('f32').add(updateOf(layer));
    const factors = layer.loraMagnitudeVector?.div(sum.square().sum(1).sqrt()).reshape([-1, 1]);
    // The update of the weight would make an expression of it that is computed later invalid.
    if (isHeld(weight)) factors?.retain();
    store(weight, layer.fromRows(factors === undefined ? sum : sum.mul(factors)));
    layer.merged = { rowFactors: factors ?? null };
  });
}

/** Takes the adapters out of the weights again, up to rounding. Throws ConfigError for a model that is not merged. */
export async function unmergeLora(model: Module): Promise<void> {
  await change(layersIn('unmergeLora', model, 'merged'), (layer, weight) => {
    const factors = layer.merged?.rowFactors ?? null;
    const rows = layer.weightRows(null).to('f32');
    const sum = factors === null ? rows : rows.div(factors);
    store(weight, layer.fromRows(sum.sub(updateOf(layer))));
    layer.merged = null;
  });
}

/**
 * Replaces the layers with adapters by plain ones. After mergeLora, their weights contain the adapters; otherwise, the
 * model is again as before addLora, except for modulesToSave. All parameters train again. Throws ConfigError for a
 * model without adapters, and for one that is parallel.
 */
export function removeLora<M extends Module>(model: M): M {
  requireModule('removeLora', model);
  requireApart('removeLora', model);
  const layers = loraLayers('removeLora', model);
  const plain = layers.map(([, layer]) => {
    const replacement: Module = layer.unwrapped().train(layer.training);
    return [layer, replacement] as const;
  });
  replaceModules(model, new Map(plain));
  return model.requiresGrad_(true);
}

/** Returns the layers with adapters. Throws ConfigError if they are not in this state. */
function layersIn(
  asked: string,
  model: Module,
  state: 'merged' | 'apart',
): readonly Named<Module & LoraLayer>[] {
  const layers = loraLayers(asked, model);
  const isMerged = state === 'merged';
  const other = layers.find(([, { merged }]) => (merged !== null) !== isMerged);
  if (other === undefined) return layers;
  throw new ConfigError(
    {
      asked: `${asked}() of ${model.constructor.name}`,
      found: isMerged ? 'adapters that are apart' : 'adapters that are merged already',
      todo: isMerged ? 'Call mergeLora before' : 'Call it once, or call unmergeLora before',
    },
    { model: model.constructor.name, path: other[0] },
  );
}

async function change(layers: readonly Named<Module & LoraLayer>[], by: Change): Promise<void> {
  const weights = layers.map(([path, layer]) => [layer, mergeable(path, layer)] as const);
  noGrad(() => {
    for (const [layer, weight] of weights) by(layer, weight);
  });
  await currentSession().realize([]);
}

function mergeable(path: string, { mergeableWeight }: LoraLayer): Parameter {
  if (mergeableWeight !== null) return mergeableWeight;
  throw new ConfigError(
    {
      asked: `to merge the adapter of '${path}'`,
      found: 'a weight that is kept in few bits, which would round the adapter away',
      todo: 'Save the adapter, and merge it into a model whose weights are not quantized',
    },
    { path },
  );
}

/** Throws ConfigError for a weight that occurs outside of its layer, too. */
function requireUntied(model: Module, layers: readonly Named<Module & LoraLayer>[]): void {
  const own = new Map<unknown, string>(
    layers.map(([path, layer]) => [layer.mergeableWeight, path]),
  );
  for (const [name, tensor] of model.namedState()) {
    const path = own.get(tensor);
    if (path === undefined || name.startsWith(`${path}.`)) continue;
    throw new ConfigError(
      {
        asked: `to merge the adapter of '${path}'`,
        found: `its weight is that of '${name}', which would change, too`,
        todo: `Train without an adapter in '${path}', or keep the adapter apart`,
      },
      { path, name },
    );
  }
}

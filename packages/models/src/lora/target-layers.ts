import { ConfigError, type Module, type Named, nearestName } from '@shardwise/core/extend';
import { type AdaptableLayer, isAdaptable, isLoraLayer } from './lora-layer.ts';

/** Whether a name such as 'q_proj' or 'mlp.up_proj' is the end of a path of modules. */
export function isNamed(path: string, name: string): boolean {
  return path === name || path.endsWith(`.${name}`);
}

/**
 * Returns the layers that get an adapter, by their paths. Throws ConfigError for a name that no layer has, for a module
 * that is no linear layer, and for a layer that has an adapter already.
 */
export function targetLayers(
  model: Module,
  targets: readonly string[] | 'all-linear',
  asked: 'LoRA' | 'quantizeModel' = 'LoRA',
): readonly Named<AdaptableLayer>[] {
  const modules = model.namedModules();
  const adapted = modules.find(([, module]) => isLoraLayer(module));
  if (adapted !== undefined) throw twiceError(adapted[0], asked);
  const linear = modules.filter((entry): entry is Named<AdaptableLayer> => isAdaptable(entry[1]));
  if (targets === 'all-linear') return withoutHead(asked, model, linear);
  const found = new Map<string, AdaptableLayer>();
  for (const target of targets) {
    const own = modules.filter(([path]) => isNamed(path, target));
    if (own.length === 0) throw missingError(asked, model, target, linear);
    for (const [path, module] of own) {
      if (!isAdaptable(module)) throw kindError(asked, path, target, module);
      found.set(path, module);
    }
  }
  if (found.size === 0) throw missingError(asked, model, '', linear);
  return [...found];
}

/**
 * All linear layers but the one that makes the logits, as in PEFT: the last one that no list of blocks has, if there are
 * such lists.
 */
function withoutHead(
  asked: string,
  model: Module,
  linear: readonly Named<AdaptableLayer>[],
): readonly Named<AdaptableLayer>[] {
  const isInBlock = (path: string): boolean => /(?:^|\.)\d+\./.test(path);
  const head = linear.some(([path]) => isInBlock(path))
    ? linear.findLast(([path]) => !isInBlock(path))
    : undefined;
  const rest = linear.filter((entry) => entry !== head);
  if (rest.length === 0) throw missingError(asked, model, 'all-linear', linear);
  return rest;
}

function missingError(
  asked: string,
  model: Module,
  target: string,
  linear: readonly Named<AdaptableLayer>[],
): ConfigError {
  const names = [...new Set(linear.map(([path]) => path.slice(path.lastIndexOf('.') + 1)))];
  const nearest = nearestName(target, names);
  const all = names.length === 0 ? 'none' : names.join(', ');
  return new ConfigError(
    {
      asked: `${asked} in the layers '${target}' of ${model.constructor.name}`,
      found: `no module of this name; its linear layers are ${all}`,
      todo:
        nearest === undefined
          ? 'Give targetModules names of linear layers'
          : `Write '${nearest}', or another of these names`,
    },
    { target, nearest },
  );
}

function kindError(asked: string, path: string, target: string, module: Module): ConfigError {
  return new ConfigError(
    {
      asked: `${asked} in the layers '${target}'`,
      found: `'${path}' is a ${module.constructor.name}, and no linear layer`,
      todo: 'Name linear layers; modules that train as a whole are named in modulesToSave',
    },
    { target, path, kind: module.constructor.name },
  );
}

function twiceError(path: string, asked: 'LoRA' | 'quantizeModel'): ConfigError {
  return new ConfigError(
    {
      asked: `${asked === 'LoRA' ? 'addLora' : asked} in a model`,
      found: `'${path}' has an adapter already`,
      todo:
        asked === 'LoRA'
          ? 'Call mergeLora and removeLora first, or removeLora alone to drop the old adapter'
          : 'Call quantizeModel before addLora, or give fromPretrained quantize and lora',
    },
    { path },
  );
}

import {
  CheckpointError,
  checkOptions,
  convertArray,
  decodeSafetensors,
  formatShape,
  Generator,
  type HostArray,
  type HostArrays,
  type Module,
  option,
  type OptionRules,
  requireModule,
  sameShape,
  type Shape,
} from '@shardwise/core/extend';
import { type AdapterConfig, adapterConfig } from './adapter-config.ts';
import { type AdapterFiles, filePrefix } from './adapter-files.ts';
import { installAdapters, type NewAdapter, requireApart } from './add-lora.ts';
import { isAdaptable, isLoraLayer, shapeOfRows } from './lora-layer.ts';
import type { LoraSettings } from './lora-options.ts';
import { isNamed } from './target-layers.ts';

const filesRules: OptionRules<AdapterFiles> = {
  config: option.required(option.object('the contents of adapter_config.json')),
  tensors: option.required(option.instanceOf(Uint8Array)),
};

/**
 * Gives a model the adapter in files of PEFT. A model without adapters gets its layers, as by addLora; call it before
 * `parallelize` then. A model with the same adapters gets the values, under every strategy. Throws ConfigError for a
 * config that this package does not compute, and CheckpointError, before anything changes, for damaged files and for an
 * adapter of another model, with all that does not fit.
 */
export async function loadAdapter(model: Module, files: AdapterFiles): Promise<void> {
  requireModule('loadAdapter', model);
  const { config, tensors, adapters } = parseAdapter(model, files);
  if (model.namedModules().every(([, module]) => !isLoraLayer(module))) {
    requireApart('loadAdapter', model);
    const { modulesToSave } = config;
    // Files replace the initial values, so the rank's generator draws nothing.
    installAdapters(model, adapters, {
      generator: new Generator(),
      modulesToSave,
      lengths: 'later',
    });
  }
  await model.loadStateDict(tensors, { strict: false });
}

/** An adapter of files, for the layers of a model. */
export interface ParsedAdapter {
  readonly config: AdapterConfig;
  /** The tensors by the names that they have in the model with the adapter. */
  readonly tensors: HostArrays;
  readonly adapters: readonly NewAdapter[];
}

/**
 * Reads the files of an adapter for a model. Throws ConfigError for a config that this package does not compute, and
 * CheckpointError for damaged files and for an adapter of another model.
 */
export function parseAdapter(model: Module, files: AdapterFiles): ParsedAdapter {
  checkOptions('loadAdapter', files, filesRules);
  const config = adapterConfig(files.config);
  const { tensors: stored } = decodeSafetensors(files.tensors, 'Reading adapter_model.safetensors');
  const tensors = ownNames(stored);
  const layers = layersOf(tensors, config);
  const modules = new Map(model.namedModules());
  const adapters = [...layers].flatMap(([path, settings]): NewAdapter[] => {
    const layer = modules.get(path);
    return layer !== undefined && isAdaptable(layer) ? [{ path, layer, settings }] : [];
  });
  const adapted = [...modules].filter(([, module]) => isLoraLayer(module));
  requireFitting(model, [
    ...[...layers.keys()].flatMap((path) => layerFault(path, modules.get(path))),
    ...(adapted.length === 0 ? [] : differentSettings(modules, layers)),
    ...tensorFaults(model, adapters, tensors),
  ]);
  return { config, tensors, adapters };
}

/** Removes what stands before the names of the file. */
function ownNames(tensors: HostArrays): HostArrays {
  const entries = Object.entries(tensors);
  const other = entries.find(([name]) => !name.startsWith(filePrefix));
  if (other !== undefined || entries.length === 0) {
    throw new CheckpointError(
      {
        asked: 'to load an adapter from adapter_model.safetensors',
        found: other === undefined ? 'no tensors' : `a tensor '${other[0]}'`,
        todo: `Use a file of PEFT, in which names begin with '${filePrefix}'`,
      },
      { name: other?.[0] },
    );
  }
  return Object.fromEntries(
    entries.map(([name, array]): [string, HostArray] => [name.slice(filePrefix.length), array]),
  );
}

const ofA = '.lora_A.weight';

/** The settings of the layers of a file. Each rank is that of the layer's matrix A. */
function layersOf(
  tensors: HostArrays,
  { alpha, dropout, useRslora, useDora, alphaPattern }: AdapterConfig,
): ReadonlyMap<string, LoraSettings> {
  const layers = new Map<string, LoraSettings>();
  for (const [name, { shape }] of Object.entries(tensors)) {
    if (!name.endsWith(ofA)) continue;
    const path = name.slice(0, -ofA.length);
    const pattern = Object.keys(alphaPattern).find((each) => isNamed(path, each));
    const own = pattern === undefined ? alpha : (alphaPattern[pattern] ?? alpha);
    layers.set(path, { rank: shape[0] ?? 0, alpha: own, dropout, useRslora, useDora });
  }
  return layers;
}

function layerFault(path: string, layer: Module | undefined): readonly string[] {
  if (layer === undefined) return [`${path} (no module of this name)`];
  return isAdaptable(layer) ? [] : [`${path} (a ${layer.constructor.name}, no linear layer)`];
}

/** Lists the layers whose adapters are not those of the files. */
function differentSettings(
  modules: ReadonlyMap<string, Module>,
  layers: ReadonlyMap<string, LoraSettings>,
): readonly string[] {
  return [...modules].flatMap(([path, module]) => {
    if (!isLoraLayer(module)) {
      return layers.has(path) ? [`${path} (an adapter in the file, and none in the model)`] : [];
    }
    if (module.stack !== null) return [`${path} (several adapters in the model)`];
    const stored = layers.get(path);
    if (stored === undefined) return [`${path} (an adapter in the model, and none in the file)`];
    const keys = ['rank', 'alpha', 'useRslora', 'useDora'] as const;
    return keys.flatMap((key) =>
      stored[key] === module.settings[key]
        ? []
        : [`${path} (${key} ${stored[key]} in the file, and ${module.settings[key]} in the model)`],
    );
  });
}

/** Lists the tensors of the file that do not fit, and those that it has not. */
function tensorFaults(
  model: Module,
  adapters: readonly NewAdapter[],
  tensors: HostArrays,
): readonly string[] {
  const needed = new Map(adapters.flatMap(shapesOf));
  const known = new Map<string, Shape>([
    ...model.namedState().map(([name, { shape }]) => [name, shape] as const),
    ...needed,
  ]);
  const faults = Object.entries(tensors).flatMap(([name, { dtype, shape }]) => {
    const expected = known.get(name);
    if (expected === undefined) return [`${name} (not in the model)`];
    if (!sameShape(shape, expected)) {
      return [`${name} (shape ${formatShape(shape)}, not ${formatShape(expected)})`];
    }
    const converts = convertArray({ dtype, shape: [0], bytes: new Uint8Array() }, 'f32');
    return converts === undefined ? [`${name} (${dtype}, not f32)`] : [];
  });
  const missing = [...needed.keys()].filter((name) => !Object.hasOwn(tensors, name));
  return [...faults, ...missing.map((name) => `${name} (not in the file)`)];
}

/** The names and shapes of an adapter's parameters. */
function shapesOf({ path, layer, settings }: NewAdapter): (readonly [string, Shape])[] {
  const [outFeatures = 0, inFeatures = 0] = shapeOfRows(layer);
  const { rank, useDora } = settings;
  return [
    [`${path}.lora_A.weight`, [rank, inFeatures]],
    [`${path}.lora_B.weight`, [outFeatures, rank]],
    ...(useDora ? [[`${path}.lora_magnitude_vector`, [outFeatures]] as const] : []),
  ];
}

const LISTED = 5;

function requireFitting(model: Module, faults: readonly string[]): void {
  if (faults.length === 0) return;
  const more = faults.length > LISTED ? `, and ${faults.length - LISTED} more` : '';
  throw new CheckpointError(
    {
      asked: `to load an adapter into ${model.constructor.name}`,
      found: `${faults.slice(0, LISTED).join(', ')}${more}`,
      todo: 'Use the model for which the adapter was trained',
    },
    { faults },
  );
}

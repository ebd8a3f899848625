import {
  checkOptions,
  ConfigError,
  defaultGenerator,
  type Module,
  requireModule,
} from '@shardwise/core/extend';
import { Conv1D } from '../layers/conv1d.ts';
import { LoraConv1D } from './lora-conv1d.ts';
import { type AdaptableLayer, lengthsOf, rowsOf, shapeOfRows } from './lora-layer.ts';
import { LoraLinear } from './lora-linear.ts';
import { type LoraOptions, loraRules, type LoraSettings } from './lora-options.ts';
import { initialParts, type LoraParts } from './lora-parts.ts';
import { LoraQuantizedLinear } from './lora-quantized-linear.ts';
import { QuantizedLinear } from '../quantized/quantized-linear.ts';
import { replaceModules } from '../quantized/replace-modules.ts';
import { isNamed, targetLayers } from './target-layers.ts';

/**
 * Freezes a model and gives linear layers adapters of low rank, which train (LoRA, Hu et al. 2021). The layers are
 * replaced in place; their weights keep their state names, and tied weights stay tied. The adapters' initial values are
 * those of PEFT: A is drawn as for torch.nn.Linear, and B is zero. Call it before `parallelize`, and make the optimizer
 * from `model.parameters()`: those that are frozen have no gradients and no states.
 *
 *     addLora(model, { rank: 8, alpha: 16, targetModules: ['q_proj', 'v_proj'] });
 *
 * Throws ConfigError for options out of range, for a name that no linear layer has, for a model that has adapters
 * already, and for one that is parallel already.
 */
export function addLora<M extends Module>(model: M, options: LoraOptions): M {
  return adapt(model, options, 'measured');
}

/**
 * As addLora, in a model whose weights are read afterwards, such as one that is built in parts. Call `measureRows` then,
 * which finds the initial values that depend on the weights.
 */
export function addLoraBeforeWeights<M extends Module>(model: M, options: LoraOptions): M {
  return adapt(model, options, 'later');
}

/** When the lengths of rows, with which DoRA begins, are found. */
type Lengths = 'measured' | 'later';

function adapt<M extends Module>(model: M, options: LoraOptions, lengths: Lengths): M {
  requireModule('addLora', model);
  checkOptions('addLora', options, loraRules);
  const {
    rank = 8,
    alpha = 8,
    dropout = 0,
    useRslora = false,
    useDora = false,
    modulesToSave = [],
    generator = defaultGenerator(),
  } = options;
  requireApart('addLora', model);
  const settings: LoraSettings = { rank, alpha, dropout, useRslora, useDora };
  const layers = targetLayers(model, options.targetModules);
  installAdapters(
    model,
    layers.map(([path, layer]) => ({ path, layer, settings })),
    { generator, modulesToSave, lengths },
  );
  return model;
}

/** A layer that gets an adapter. */
export interface NewAdapter {
  readonly path: string;
  readonly layer: AdaptableLayer;
  readonly settings: LoraSettings;
}

interface Installation extends Required<Pick<LoraOptions, 'generator' | 'modulesToSave'>> {
  readonly lengths: Lengths;
}

/** Freezes a model, and replaces layers by ones with adapters. Throws ConfigError before anything changes. */
export function installAdapters(
  model: Module,
  adapters: readonly NewAdapter[],
  { modulesToSave, ...beginning }: Installation,
): void {
  const saved = modulesToSave.flatMap((name) => namedModule(model, name));
  const adapted = new Map<Module, Module>();
  for (const adapter of adapters) {
    const { layer } = adapter;
    if (!adapted.has(layer)) adapted.set(layer, adapterOf(adapter, beginning));
  }
  const base = model.parameters();
  replaceModules(model, adapted);
  for (const parameter of base) parameter.requiresGrad_(false);
  for (const module of saved) module.requiresGrad_(true);
}

function adapterOf(
  { path, layer, settings }: NewAdapter,
  { generator, lengths }: Omit<Installation, 'modulesToSave'>,
): Module {
  const measures = settings.useDora && lengths === 'measured';
  if (measures && layer.weight.initialPart !== null) throw partError(path);
  const rowLengths = measures ? lengthsOf(rowsOf(layer)) : null;
  const parts = initialParts(settings, shapeOfRows(layer), generator, rowLengths);
  return withParts(layer, parts).train(layer.training);
}

function withParts(layer: AdaptableLayer, parts: LoraParts): Module {
  if (layer instanceof QuantizedLinear) return new LoraQuantizedLinear(layer, parts);
  return layer instanceof Conv1D ? new LoraConv1D(layer, parts) : new LoraLinear(layer, parts);
}

function namedModule(model: Module, name: string): readonly Module[] {
  const found = model.namedModules().filter(([path]) => isNamed(path, name));
  if (found.length > 0) return found.map(([, module]) => module);
  throw new ConfigError(
    {
      asked: `LoRA with '${name}' in modulesToSave`,
      found: `no module of this name in ${model.constructor.name}`,
      todo: 'Use names that namedModules() gives, or their last parts',
    },
    { name },
  );
}

/** Throws ConfigError for a model whose parameters a strategy has replaced. */
export function requireApart(asked: string, model: Module): void {
  const shared = model.namedParameters().find(([, parameter]) => parameter.part !== parameter);
  if (shared === undefined) return;
  throw new ConfigError(
    {
      asked: `${asked} in ${model.constructor.name}`,
      found: `a strategy has put another parameter in the place of '${shared[0]}'`,
      todo: `Call ${asked} before parallelize(), or give fromPretrained the option ${asked === 'addLora' ? 'lora' : 'quantize'} beside its strategy`,
    },
    { name: shared[0] },
  );
}

function partError(path: string): ConfigError {
  return new ConfigError(
    {
      asked: `DoRA in '${path}' inside constructSharded`,
      found: 'a part of its weight only, so the lengths of the rows are not known',
      todo: 'Give fromPretrained the option lora, build the model without constructSharded, or leave useDora out',
    },
    { path },
  );
}

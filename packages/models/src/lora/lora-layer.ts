import {
  allReduce,
  ConfigError,
  functional,
  isHeldAt,
  Linear,
  type Module,
  type Named,
  noGrad,
  ownPlace,
  type Parameter,
  requireModule,
  type Shape,
  type Tensor,
  withCoordinateKeys,
} from '@shardwise/core/extend';
import type { AdaptedProduct, SharedProduct } from '@shardwise/strategies';
import { Conv1D } from '../layers/conv1d.ts';
import { QuantizedLinear } from '../quantized/quantized-linear.ts';
import type { LayerStack } from './adapter-stack.ts';
import type { LowRankFactor } from './low-rank-factor.ts';
import { type LoraSettings, scalingOf } from './lora-options.ts';

/** The linear layers that can have an adapter. */
export type AdaptableLayer = Linear | Conv1D | QuantizedLinear;

/** Subclasses, such as heads that compute losses, do more than a product, which an adapter would change. */
const adaptable: ReadonlySet<unknown> = new Set([Linear, Conv1D, QuantizedLinear]);

export function isAdaptable(module: Module): module is AdaptableLayer {
  return adaptable.has(module.constructor) || isLoraLayer(module);
}

/** The weight of a layer. Shape: -> [out, in]. */
export function rowsOf(layer: AdaptableLayer): Tensor {
  if (layer instanceof QuantizedLinear) return layer.weightRows(null);
  return layer instanceof Conv1D ? layer.weight.transpose(0, 1) : layer.weight;
}

/** The shape of the weight of a layer: [out, in]. */
export function shapeOfRows(layer: AdaptableLayer): Shape {
  if (layer instanceof QuantizedLinear) return [layer.outFeatures, layer.inFeatures];
  const { shape } = layer.weight;
  return layer instanceof Conv1D ? shape.toReversed() : shape;
}

/** The lengths of the rows of a weight, without a gradient. Shape: [out, in] -> f32 [out]. */
export function lengthsOf(rows: Tensor): Tensor {
  return noGrad(() => rows.to('f32').square().sum(1).sqrt());
}

/**
 * A linear layer to whose product the terms of an adapter are added: x Wᵀ + scaling · x Aᵀ Bᵀ (Hu et al. 2021), where W
 * is frozen. With DoRA, each row of W + scaling · B A is then brought to the length in `loraMagnitudeVector`.
 */
export interface LoraLayer extends Module, AdaptedProduct {
  readonly bias: Parameter | null;
  readonly loraA: LowRankFactor;
  readonly loraB: LowRankFactor;
  /** Shape: [out]. Null without DoRA. */
  readonly loraMagnitudeVector: Parameter | null;
  readonly settings: LoraSettings;
  /** The weight that mergeLora can change. Null for one that is kept in fewer bits. */
  readonly mergeableWeight: Parameter | null;
  /** What mergeLora has done, or null while the adapter is apart. */
  merged: MergedUpdate | null;
  /** How tokens choose among several adapters, whose matrices are parts of `loraA` and `loraB`. Null if there is one. */
  stack: LayerStack | null;
  /** The product with the frozen weight alone, or this rank's part of it. Shape: x [.., in] -> [.., out]. */
  baseProduct(x: Tensor, shared: SharedProduct | null): Tensor;
  /** The frozen weight, or this rank's part of it. Shape: -> [out, in], or a part of its rows or columns. */
  weightRows(shared: SharedProduct | null): Tensor;
  /** Values of the weight in the layout in which the layer keeps it. Shape: [out, in] -> that of the weight. */
  fromRows(rows: Tensor): Tensor;
  /** The layer without its adapter. */
  unwrapped(): Module;
}

export interface MergedUpdate {
  /** The factor of each row that DoRA has merged. Null without DoRA. Shape: [out, 1]. */
  readonly rowFactors: Tensor | null;
}

export function isLoraLayer(module: Module): module is AdaptableLayer & LoraLayer {
  return 'loraA' in module && 'settings' in module;
}

/** Returns the layers of a model that have adapters. Throws ConfigError if there are none. */
export function loraLayers(asked: string, model: Module): readonly Named<Module & LoraLayer>[] {
  requireModule(asked, model);
  const layers = model
    .namedModules()
    .filter((entry): entry is Named<Module & LoraLayer> => isLoraLayer(entry[1]));
  const stacked = layers.find(([, { stack }]) => stack !== null);
  if (stacked !== undefined && asked !== 'removeLora') throw severalAdapters(asked, stacked[0]);
  if (layers.length > 0) return layers;
  throw new ConfigError(
    {
      asked: `${asked}() of ${model.constructor.name}`,
      found: 'no layer with an adapter',
      todo: 'Call addLora first',
    },
    { model: model.constructor.name },
  );
}

function severalAdapters(asked: string, path: string): ConfigError {
  return new ConfigError(
    {
      asked: `${asked}()`,
      found: `several adapters in '${path}', of which each token chooses one`,
      todo: 'Load the adapter into a model of its own with loadAdapter',
    },
    { path },
  );
}

/** The parameters of the adapter of a layer, without those of the layer itself. */
export function adapterParameters({
  loraA,
  loraB,
  loraMagnitudeVector,
}: LoraLayer): readonly Parameter[] {
  const matrices = [loraA.weight, loraB.weight];
  return loraMagnitudeVector === null ? matrices : [...matrices, loraMagnitudeVector];
}

/** The product of a layer with its adapter, without the bias. Shape: x [.., in] -> [.., out]. */
export function adaptedProduct(layer: LoraLayer, x: Tensor, shared: SharedProduct | null): Tensor {
  if (layer.merged !== null) return layer.baseProduct(x, shared);
  const { dropout } = layer.settings;
  const drops = layer.training && dropout > 0;
  const base = layer.baseProduct(x, shared);
  if (layer.stack !== null) {
    const own = layer.stack.update(x, layer.loraA, layer.loraB);
    return own === null ? base : base.add(own.to(base.dtype));
  }
  const dropped = drops ? dropOwn(x, dropout, shared) : x;
  const update = lowRankProduct(layer, dropped).to(base.dtype);
  if (layer.loraMagnitudeVector === null) return base.add(update);
  const factors = rowFactors(layer, layer.loraMagnitudeVector, shared).to(base.dtype);
  // As in PEFT, what dropout drops is missing from the change of the frozen product, but not from the product itself.
  if (!drops) return base.add(update).mul(factors);
  return base.add(layer.baseProduct(dropped, shared).mul(factors.sub(1))).add(update.mul(factors));
}

/** Parts of the inputs are dropped independently of each other. Shape: N -> N. */
function dropOwn(x: Tensor, probability: number, shared: SharedProduct | null): Tensor {
  const drop = (): Tensor => functional.dropout(x, probability);
  if (shared?.of !== 'inputs') return drop();
  return withCoordinateKeys(ownPlace(shared.axis).rank, drop);
}

/** scaling · x Aᵀ Bᵀ, in the dtype of the adapter. Shape: x [.., in] -> [.., out]. */
function lowRankProduct({ loraA, loraB, settings }: LoraLayer, x: Tensor): Tensor {
  const low = functional.linear(x.to(loraA.weight.dtype), loraA.weight);
  return functional.linear(low, loraB.weight).mul(scalingOf(settings));
}

/**
 * By how much DoRA stretches each row: its length in the magnitude vector, divided by that of W + scaling · B A, through
 * which no gradient flows. Shape: -> [out].
 */
function rowFactors(layer: LoraLayer, magnitude: Parameter, shared: SharedProduct | null): Tensor {
  const length = noGrad(() => {
    const squares = layer.weightRows(shared).add(updateOf(layer)).square().sum(1);
    return (shared?.of === 'inputs' ? allReduce(squares, shared.axis) : squares).sqrt();
  });
  return magnitude.div(length);
}

/** Whether this rank has any of a parameter. In a pipeline, only the rank of its stage has it. */
export function isHeld(parameter: Parameter): boolean {
  return isHeldAt(parameter.part.layout, ownPlace);
}

/** Stores what this rank has of a parameter. Shape: values of the whole parameter. */
export function store(parameter: Parameter, values: Tensor): void {
  if (isHeld(parameter)) parameter.part.assign(parameter.partOf(values.to(parameter.dtype)));
}

/** scaling · B A. Shape: -> [out, in]. */
export function updateOf({ loraA, loraB, settings }: LoraLayer): Tensor {
  return loraB.weight.matmul(loraA.weight).mul(scalingOf(settings));
}

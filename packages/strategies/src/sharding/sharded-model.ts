import {
  axisOf,
  broadcast,
  currentSession,
  dtypes,
  type Model,
  type Module,
  noGrad,
  type PageStore,
  type ParallelModel,
  type Parameter,
  partOfExtent,
  type Plan,
  type Strategy,
  synchronously,
  type Tensor,
} from '@shardwise/core/extend';
import { requireUnaveraged } from '../averaged-parameters.ts';
import { BufferSharing } from '../buffer-sharing.ts';
import { KnownParameters } from '../known-parameters.ts';
import { parameterNames } from '../parameter-names.ts';
import { requireSameModel } from '../same-model.ts';
import { requireFloat32 } from '../mixed-precision/require-float32.ts';
import { afterForwardOf, makeSharingGroups } from './after-forward.ts';
import { checkInitialPart } from './check-initial-part.ts';
import { type CutRule, cutOf, paddedBytes, partBytes, rangeOf } from './cut.ts';
import type { MixedPrecision } from '../mixed-precision/mixed-precision.ts';
import { MixedPrecisionPart } from './mixed-precision-part.ts';
import { GradientReducer } from './gradient-reducer.ts';
import { checkUnits, installUnits } from './install-units.ts';
import { StateShardedPart, GradientShardedPart } from './replicated-part.ts';
import { ScatteredPart } from './scattered-part.ts';
import { ShardedParameter } from './sharded-parameter.ts';
import type { ShardedPart } from './sharded-part.ts';
import type { ShardedStates } from './sharded-states.ts';
import { commonUnit, type UnitOf } from './unit-names.ts';

export interface ShardingOptions {
  readonly axis: string;
  /** A mesh axis whose ranks hold the same parts. */
  readonly replicas?: string;
  readonly sharded: ShardedStates;
  readonly rule: CutRule;
  readonly unitOf: UnitOf;
  /** Whether whole parameters are freed after forward; a number: of how many ranks each keeps a part then. */
  readonly reshardAfterForward: (unit: string) => boolean | number;
  /** Which parameters are reduced together, by name, in the order of backward. */
  readonly gradientGroupOf: (parameterName: string) => string;
  /** How many units ahead of their use parameters are collected. */
  readonly prefetch: number;
  /** Where parts of parameters are kept between their uses, if not on the device. */
  readonly pages?: PageStore;
  readonly mixedPrecision?: MixedPrecision | undefined;
  /** Whether ranks train and evaluate with rank 0's buffers, as ddp does. */
  readonly broadcastBuffers: boolean;
}

/** zero and fsdp, which give a ShardedModel. */
export interface ShardedModelStrategy extends Strategy<Module> {
  apply<M extends Module, Inputs extends readonly unknown[], Output>(
    plan: Plan,
    model: M & Model<Inputs, Output>,
  ): Promise<ShardedModel<M, Inputs, Output>>;
}

/** A model whose states the ranks of an axis share out. Make one with `shardModel`. */
export class ShardedModel<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
> implements ParallelModel<M, Inputs, Output> {
  readonly module: M & Model<Inputs, Output>;
  readonly parameters: readonly (readonly [name: string, parameter: ShardedParameter])[];
  readonly #reducer: GradientReducer;
  readonly #beginForward: (synchronizes: boolean) => void;

  /** `beginForward` is told whether gradients of the pass leave this rank. */
  constructor(
    module: M & Model<Inputs, Output>,
    parameters: readonly (readonly [string, ShardedParameter])[],
    reducer: GradientReducer,
    beginForward: (synchronizes: boolean) => void,
  ) {
    this.module = module;
    this.parameters = parameters;
    this.#reducer = reducer;
    this.#beginForward = beginForward;
  }

  /** Throws ConfigError for a model that parameters were put into since. */
  forward(...inputs: Inputs): Output {
    this.#beginForward(this.#reducer.enabled);
    return this.module.forward(...inputs);
  }

  noSync<T>(body: () => T): T {
    const before = this.#reducer.enabled;
    this.#reducer.enabled = false;
    try {
      return synchronously('noSync', body);
    } finally {
      this.#reducer.enabled = before;
    }
  }
}

/**
 * Replaces a model's parameters by parts of them and has its units collect them. A collective:
 * checks that all ranks have the same model, and gives them rank 0's values. Throws ConfigError for
 * a model that a strategy was applied to, LayoutError for units that are no modules, before anything changes.
 */
export async function shardModel<M extends Module, Inputs extends readonly unknown[], Output>(
  model: M & Model<Inputs, Output>,
  options: ShardingOptions,
): Promise<ShardedModel<M, Inputs, Output>> {
  const { axis, replicas } = options;
  const { mesh } = currentSession();
  const { size } = axisOf(mesh, axis);
  const named = model.namedParameters();
  requireUnaveraged('to share out a model over ranks', named);
  const names = parameterNames(model);
  const unitOf = new Map(
    named.map(([name, parameter]) => {
      return [parameter, commonUnit(names.get(parameter) ?? [name], options.unitOf)] as const;
    }),
  );
  // The whole model first, then the units in the order in which the model declares them.
  const unitNames = [...new Set(unitOf.values())];
  const ordered = [
    ...unitNames.filter((name) => name === ''),
    ...unitNames.filter((name) => name !== ''),
  ];
  checkUnits(model, ordered);
  const afterForward = new Map(
    ordered.map((unit) => [unit, afterForwardOf(options.reshardAfterForward(unit), axis, size)]),
  );
  const tensors: (readonly [string, Tensor])[] = [...named, ...model.namedBuffers()];
  for (const each of replicas === undefined ? [axis] : [axis, replicas]) {
    await requireSameModel(tensors, mesh.group(each));
  }
  await makeSharingGroups(afterForward.values(), axis);
  const units = new Map(ordered.map((unit) => [unit, new Array<ShardedParameter>()]));
  const reducer = new GradientReducer({ axis, replicas });
  const sharded: (readonly [string, ShardedParameter])[] = [];
  for (const [name, parameter] of named) {
    const part = await partOf(parameter, options);
    const group = reducer.add(name, part, options.gradientGroupOf(name));
    const replacement = new ShardedParameter(part, parameter, group);
    parameter.dispose();
    parameter.initialPart = null;
    model.replaceParameter(parameter, replacement);
    if (options.pages !== undefined) await part.pageOut(name, options.pages);
    units.get(unitOf.get(parameter) ?? '')?.push(replacement);
    sharded.push([name, replacement]);
  }
  const plans = [...units].map(([unit, parameters]) => {
    return [unit, { parameters, afterForward: found(afterForward.get(unit), unit) }] as const;
  });
  installUnits(model, new Map(plans), {
    prefetch: options.prefetch,
    mixedPrecision: options.mixedPrecision,
  });
  const known = new KnownParameters('a strategy that shares out states', model);
  const buffers = new BufferSharing(model);
  const shareBuffers = (): void => buffers.share((message) => ofRankZero(message, options));
  shareBuffers();
  await currentSession().realize([]);
  return new ShardedModel<M, Inputs, Output>(model, sharded, reducer, (synchronizes) => {
    known.check();
    if (options.broadcastBuffers && buffers.begin({ synchronizes })) shareBuffers();
  });
}

/** Shape: N -> N. */
function ofRankZero(tensor: Tensor, { axis, replicas }: ShardingOptions): Tensor {
  const own = broadcast(tensor, axis);
  return replicas === undefined ? own : broadcast(own, replicas);
}

function found<T>(value: T | undefined, of: string): T {
  if (value === undefined) throw new RangeError(`nothing is planned for '${of}'`);
  return value;
}

/** What this rank keeps of a parameter. A collective: its values are rank 0's. */
async function partOf(parameter: Parameter, options: ShardingOptions): Promise<ShardedPart> {
  const { axis, sharded, rule, mixedPrecision } = options;
  const { size, rank: index } = axisOf(currentSession().mesh, axis);
  const { part: of, initialPart: initial, requiresGrad } = parameter;
  const { shape, dtype } = of;
  requireFloat32('to share out', of);
  const cut = cutOf(shape, shape.length === 0 ? 'flat' : rule, size);
  const common = { cut, axis, index, requiresGrad, of };
  if (initial !== null) {
    const extent = partOfExtent(of.extent, ...rangeOf(cut, index));
    return scattered(checkInitialPart(initial, { extent, sharded }));
  }
  const whole = await valuesOfRankZero(of, options);
  const { bytes: elementBytes } = dtypes[dtype];
  if (sharded === 'parameters' || mixedPrecision !== undefined) {
    return scattered(partBytes(whole, cut, index, elementBytes));
  }
  const padded = new Float32Array(paddedBytes(whole, cut, elementBytes).buffer);
  return sharded === 'gradients'
    ? new GradientShardedPart(padded, cut.paddedShape, common)
    : new StateShardedPart(padded, cut.paddedShape, common);

  function scattered(bytes: Uint8Array<ArrayBuffer>): ShardedPart {
    const data = new Float32Array(bytes.buffer);
    if (mixedPrecision === undefined) return new ScatteredPart(data, cut.partShape, common);
    return new MixedPrecisionPart(data, cut.partShape, {
      ...common,
      mixedPrecision,
      stores: sharded === 'parameters' ? 'part' : 'whole',
      keepsGradient: sharded === 'optimizer' ? 'whole' : 'part',
    });
  }
}

async function valuesOfRankZero(tensor: Tensor, options: ShardingOptions): Promise<Uint8Array> {
  noGrad(() => tensor.assign(ofRankZero(tensor, options)));
  const data = await tensor.data();
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

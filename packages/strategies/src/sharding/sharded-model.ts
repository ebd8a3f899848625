import {
  axisOf,
  currentSession,
  dtypes,
  LayoutError,
  type Model,
  type Module,
  noGrad,
  type ParallelModel,
  type Parameter,
  type Tensor,
  broadcast,
} from '@shardwise/core';
import { parameterNames } from '../parameter-names.ts';
import { requireSameModel } from '../same-model.ts';
import { checkInitialPart } from './construct-sharded.ts';
import { type CutRule, cutOf, paddedBytes, partBytes } from './cut.ts';
import { GradientGroup } from './gradient-group.ts';
import { interceptForward } from './intercept-forward.ts';
import { StateShardedParameter, GradientShardedParameter } from './replicated-parameter.ts';
import { ScatteredParameter } from './scattered-parameter.ts';
import type { ShardedParameter } from './sharded-parameter.ts';
import { ShardedUnit } from './sharded-unit.ts';
import { commonUnit, type UnitOf } from './unit-names.ts';

/** Which states the ranks share out. */
export type Sharded = 'optimizer' | 'gradients' | 'parameters';

export interface ShardingOptions {
  readonly axis: string;
  /** A mesh axis whose ranks hold the same parts. */
  readonly replicas?: string;
  readonly sharded: Sharded;
  readonly rule: CutRule;
  readonly unitOf: UnitOf;
  readonly reshardAfterForward: (unit: string) => boolean;
  /** Which parameters are reduced together, by name, in the order of backward. */
  readonly gradientGroupOf: (parameterName: string) => string;
  /** How many units ahead of their use parameters are collected. */
  readonly prefetch: number;
}

/** A model whose states the ranks of an axis share out. Make one with `shardModel`. */
export class ShardedModel<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
> implements ParallelModel<M, Inputs, Output> {
  readonly module: M & Model<Inputs, Output>;
  readonly parameters: readonly (readonly [name: string, parameter: ShardedParameter])[];
  readonly #groups: readonly GradientGroup[];

  constructor(
    module: M & Model<Inputs, Output>,
    parameters: readonly (readonly [string, ShardedParameter])[],
    groups: readonly GradientGroup[],
  ) {
    this.module = module;
    this.parameters = parameters;
    this.#groups = groups;
  }

  forward(...inputs: Inputs): Output {
    return this.module.forward(...inputs);
  }

  noSync<T>(body: () => T): T {
    const before = this.#groups.map(({ enabled }) => enabled);
    for (const group of this.#groups) group.enabled = false;
    try {
      return body();
    } finally {
      this.#groups.forEach((group, index) => {
        group.enabled = before[index] ?? true;
      });
    }
  }
}

/**
 * Replaces a model's parameters by parts of them and has its units collect them. A collective:
 * checks that all ranks have the same model, and gives them rank 0's values.
 */
export async function shardModel<M extends Module, Inputs extends readonly unknown[], Output>(
  model: M & Model<Inputs, Output>,
  options: ShardingOptions,
): Promise<ShardedModel<M, Inputs, Output>> {
  const { axis, replicas } = options;
  const { mesh } = currentSession();
  const named = model.namedParameters();
  const tensors: (readonly [string, Tensor])[] = [...named, ...model.namedBuffers()];
  for (const each of replicas === undefined ? [axis] : [axis, replicas]) {
    await requireSameModel(tensors, mesh.group(each));
  }
  const names = parameterNames(model);
  const units = new Map<string, ShardedParameter[]>();
  const groupOf = new Map<ShardedParameter, GradientGroup>();
  const groups = new Map<string, GradientGroup>();
  const sharded: (readonly [string, ShardedParameter])[] = [];
  for (const [name, parameter] of named) {
    const part = await shardParameter(model, parameter, options);
    const unit = commonUnit(names.get(parameter) ?? [name], options.unitOf);
    units.set(unit, [...(units.get(unit) ?? []), part]);
    const groupName = options.gradientGroupOf(name);
    const group = groups.get(groupName) ?? new GradientGroup(replicas);
    groups.set(groupName, group);
    groupOf.set(part, group);
    sharded.push([name, part]);
  }
  installUnits(model, units, groupOf, options);
  return new ShardedModel<M, Inputs, Output>(model, sharded, [...groups.values()]);
}

async function shardParameter(
  model: Module,
  parameter: Parameter,
  options: ShardingOptions,
): Promise<ShardedParameter> {
  const { axis, sharded, rule } = options;
  const { size, rank } = axisOf(currentSession().mesh, axis);
  const { shape, dtype, requiresGrad } = parameter;
  const cut = cutOf(shape, parameter.ndim === 0 ? 'flat' : rule, size);
  const common = { cut, axis, part: rank, requiresGrad };
  const part = await make();
  parameter.dispose();
  model.replaceParameter(parameter, part);
  return part;

  async function make(): Promise<ShardedParameter> {
    const initial = parameter.initialPart;
    if (initial !== null) return scattered(checkInitialPart(initial, cut, dtype, sharded));
    const whole = await valuesOfRankZero(parameter, options);
    const { bytes: elementBytes } = dtypes[dtype];
    if (sharded === 'parameters') return scattered(partBytes(whole, cut, rank, elementBytes));
    const padded = new Float32Array(paddedBytes(whole, cut, elementBytes).buffer);
    return sharded === 'gradients'
      ? new GradientShardedParameter(padded, cut.paddedShape, common)
      : new StateShardedParameter(padded, cut.paddedShape, common);
  }

  function scattered(bytes: Uint8Array<ArrayBuffer>): ShardedParameter {
    return new ScatteredParameter(new Float32Array(bytes.buffer), cut.partShape, common);
  }
}

async function valuesOfRankZero(
  parameter: Parameter,
  { axis, replicas }: ShardingOptions,
): Promise<Uint8Array> {
  noGrad(() => {
    for (const each of replicas === undefined ? [axis] : [axis, replicas]) {
      parameter.assign(broadcast(parameter, each));
    }
  });
  const data = await parameter.data();
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

function installUnits(
  model: Module,
  parametersOf: ReadonlyMap<string, readonly ShardedParameter[]>,
  groupOf: ReadonlyMap<ShardedParameter, GradientGroup>,
  { reshardAfterForward, prefetch }: ShardingOptions,
): void {
  const modules = new Map(model.namedModules());
  const units = new Map<string, ShardedUnit>();
  // As in the latest forward pass; before the first one, as they were declared.
  let order: ShardedUnit[] = [];
  let running: ShardedUnit[] = [];
  const neighbours = (unit: ShardedUnit, step: 1 | -1): ShardedUnit[] => {
    const at = order.indexOf(unit);
    if (at < 0) return [];
    const count = Math.max(0, prefetch);
    return Array.from({ length: count }, (_, i) => order[at + step * (i + 1)]).filter(
      (other) => other !== undefined,
    );
  };
  const names = [...parametersOf.keys()].filter((name) => name !== '');
  for (const name of parametersOf.has('') ? ['', ...names] : names) {
    const unit: ShardedUnit = new ShardedUnit({
      name,
      parameters: parametersOf.get(name) ?? [],
      groupOf: (parameter) => found(groupOf.get(parameter), name),
      reshardAfterForward: reshardAfterForward(name),
      onBackward: () => {
        unit.collectAgain();
        for (const earlier of neighbours(unit, -1)) earlier.collectAgain();
      },
    });
    units.set(name, unit);
  }
  order = names.flatMap((name) => units.get(name) ?? []);
  for (const [name, unit] of units) {
    if (name === '') continue;
    interceptForward(moduleOf(modules, name), (forward) => {
      running.push(unit);
      return unit.whole(() => {
        for (const next of neighbours(unit, 1)) next.collect();
        return forward();
      });
    });
  }
  const root = units.get('');
  interceptForward(model, (forward) => {
    for (const unit of units.values()) unit.release();
    running = [];
    for (const first of order.slice(0, Math.max(0, prefetch))) first.collect();
    const result = root === undefined ? forward() : root.whole(forward);
    if (running.length > 0) order = [...new Set(running)];
    return result;
  });
}

function moduleOf(modules: ReadonlyMap<string, Module>, name: string): Module {
  const module = modules.get(name);
  if (module !== undefined) return module;
  throw new LayoutError(
    {
      asked: `to shard the module '${name}' as a unit`,
      found: `no module of this name; there are ${[...modules.keys()].slice(1, 6).join(', ')}, …`,
      todo: 'Have unitOf return names of modules, or an empty text for the whole model',
    },
    { name },
  );
}

function found(group: GradientGroup | undefined, unit: string): GradientGroup {
  if (group === undefined) throw new RangeError(`a parameter of '${unit}' without a group`);
  return group;
}

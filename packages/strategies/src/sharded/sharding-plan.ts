import {
  layoutOver,
  type MeshAxis,
  type ModelSpec,
  type PageStore,
  type ParameterSpec,
  replicated,
  type Shape,
  type Sharding,
} from '@shardwise/core/extend';
import { broadcastBuffers } from '../distributed-data-parallel/broadcast-buffers.ts';
import { distribute } from '../distributed-data-parallel/distribute.ts';
import { reduce } from '../distributed-data-parallel/reduce.ts';
import { type MixedPrecision, plannedPrecision } from '../mixed-precision/mixed-precision.ts';
import { type BatchAxes, batchAxesOf, requireAxis } from '../plan/axes.ts';
import { type ModelPlan, Step } from '../plan/step.ts';
import { gather } from './gather.ts';
import { page } from './page.ts';
import { quantizedReduce } from './quantized-reduce.ts';
import type { QuantizedMessages } from './zero-plus-plus.ts';
import { afterForwardOf } from './units/after-forward.ts';
import { commonUnit, type UnitOf } from '../plan/unit-names.ts';

export interface ShardingOptions {
  readonly strategy: string;
  readonly axis: string;
  /** A mesh axis whose ranks hold the same parts. */
  readonly replicas?: string | undefined;
  /** The states that the ranks shard. Each value includes those before it. */
  readonly sharded: 'optimizer' | 'gradients' | 'parameters';
  readonly rule: ShardingRule;
  readonly unitOf: UnitOf;
  /** Whether whole parameters are freed after forward. A number: the number of ranks that each keep a part. */
  readonly reshardAfterForward: (unit: string) => boolean | number;
  /** Returns the name of the group of parameters with which a parameter is reduced. Default: its unit. */
  readonly gradientGroupOf?: (parameterName: string) => string;
  /** How many units ahead of their use parameters are gathered. */
  readonly prefetch: number;
  /** Where parts of parameters are kept between their uses, if not on the device. */
  readonly pages?: PageStore | undefined;
  readonly mixedPrecision?: MixedPrecision | undefined;
  /** What is sent in few bits. Default: nothing. */
  readonly quantized?: QuantizedMessages | undefined;
  /** Whether gradients of all trained parameters are reduced in each pass, as zeros where it reaches none. */
  readonly findUnusedParameters: boolean;
  /** Whether ranks train and evaluate with rank 0's buffers, as ddp does. */
  readonly broadcastBuffers: boolean;
}

/** Makes a plan by which the ranks of an axis shard states. Throws LayoutError for unknown axes. */
export function shardingPlan(
  { parameters }: ModelSpec,
  axes: readonly MeshAxis[],
  options: ShardingOptions,
): ModelPlan {
  const { strategy, axis, replicas, sharded, rule, unitOf, prefetch, pages } = options;
  const { quantized = {} } = options;
  const size = requireAxis(strategy, axes, axis);
  if (replicas !== undefined) requireAxis(strategy, axes, replicas);
  const over: BatchAxes = replicas === undefined ? { axis } : { axis, replicas };
  const batchAxes = batchAxesOf(over);
  const names = parameters.map(({ name }) => name);
  const ownUnit = ({ name, names: all }: ParameterSpec): string =>
    commonUnit(all ?? [name], unitOf);
  const byUnit = Map.groupBy(parameters, ownUnit);
  // The whole model comes first, then the units in the order in which the model declares them.
  const units = [...byUnit].sort(([a], [b]) => Number(b === '') - Number(a === ''));
  const groups = Map.groupBy(
    parameters.toReversed(),
    (each) => options.gradientGroupOf?.(each.name) ?? ownUnit(each),
  );
  const unused = options.findUnusedParameters ? ({ unused: 'any' } as const) : {};
  for (const [unit] of units) afterForwardOf(options.reshardAfterForward(unit), axis, size);
  return {
    strategy,
    axes,
    batch: { dims: [batchAxes.toReversed()], partial: [] },
    parameters: parameters.map((each) => ({ ...each, ...layoutsOf(each, rule, axis, sharded) })),
    steps: [
      ...(pages === undefined ? [] : [new Step(page, { parameters: names, store: pages })]),
      new Step(distribute, over),
      ...units.map(([unit, list]) => {
        const reshardAfterForward = options.reshardAfterForward(unit);
        const own = list.map(({ name }) => name);
        return new Step(gather, {
          axis,
          unit,
          parameters: own,
          reshardAfterForward,
          prefetch,
          ...(quantized.weights && { quantized: quantized.weights }),
        });
      }),
      ...[...groups.values()].map((list) => {
        const reduced = { ...over, parameters: list.map(({ name }) => name), ...unused };
        return quantized.gradients === undefined
          ? new Step(reduce, reduced)
          : new Step(quantizedReduce, { ...reduced, quantized: quantized.gradients });
      }),
      ...(options.broadcastBuffers ? [new Step(broadcastBuffers, { axes: batchAxes })] : []),
    ],
    ...plannedPrecision(options.mixedPrecision),
  };
}

function layoutsOf(
  { shape }: ParameterSpec,
  rule: ShardingRule,
  axis: string,
  sharded: ShardingOptions['sharded'],
): Pick<ModelPlan['parameters'][number], 'parameter' | 'gradient' | 'optimizer'> {
  const whole = replicated(shape);
  const part = layoutOver(axis, shardingOfRule(rule, shape), shape.length);
  return {
    parameter: sharded === 'parameters' ? part : whole,
    gradient: sharded === 'optimizer' ? whole : part,
    optimizer: part,
  };
}

/**
 * How parameters are sharded into parts of the same size, padded with zeros at the end. `rows`: along dim 0, ceil(rows
 * / ranks) for each rank (PyTorch's fully_shard). `flat`: element by element in row-major order (DeepSpeed's ZeRO).
 */
type ShardingRule = 'rows' | 'flat';

/** Returns the sharding of a shape. A parameter without dims has no rows, so it is sharded flat. */
function shardingOfRule(rule: ShardingRule, shape: Shape): Sharding {
  return rule === 'flat' || shape.length === 0 ? 'flat' : { shard: 0 };
}

import {
  checkOptions,
  chunksOf,
  constructParts,
  dtypes,
  elementCount,
  type InitialPart,
  joinLayouts,
  type Layout,
  localShape,
  type Module,
  option,
  type OptionRules,
  ownPlace,
  randomState,
  replicated,
  setRandomState,
  type Shape,
  takeChunks,
} from '@shardwise/core/extend';
import { type DimSharding, layoutOver } from '../layout/axis-layout.ts';
import { partShape } from '../layout/equal-parts.ts';
import { modelSpec } from '../plan/model-spec.ts';
import { shardingsOf, type StylePlan } from '../tensor-parallel/styled-modules.ts';
import { type ShardingRule, shardingOfRule } from './sharding-rule.ts';

export interface ConstructShardedOptions {
  /** The mesh axis over which the strategy will share out the parameters. Default: `dp`. */
  readonly axis?: string;
  /** As the strategy shards: `rows` for fsdp, `flat` for zero. Default: `rows`. */
  readonly rule?: ShardingRule;
  /** What tensor parallelism is given, where the strategy is composed with it. */
  readonly tensorParallel?: ConstructPartitioned;
}

export interface ConstructPartitioned {
  readonly styles: StylePlan;
  /** The mesh axis whose ranks share out each layer. Default: `tp`. */
  readonly axis?: string;
}

const partitionedRules: OptionRules<ConstructPartitioned> = {
  styles: option.required(option.object('styles by module')),
  axis: option.axisName,
};

const constructRules: OptionRules<ConstructShardedOptions> = {
  axis: option.axisName,
  rule: option.oneOf('rows', 'flat'),
  tensorParallel: option.object(),
};

/**
 * Builds a model of which this rank keeps its parts alone, for `fsdp` and `zero({ stage: 3 })`, also
 * composed with tensor parallelism: no rank holds more than one whole parameter at a time. All ranks
 * must draw the same initial values, so they call `manualSeed` with one seed before. With tensor
 * parallelism `build` runs twice, first to learn the names of the parameters, and draws from the
 * rank's own generator.
 */
export function constructSharded<M extends Module>(
  build: () => M,
  options: ConstructShardedOptions = {},
): M {
  checkOptions('constructSharded', options, constructRules);
  const { axis = 'dp', rule = 'rows', tensorParallel } = options;
  const { size } = ownPlace(axis);
  const layoutOf =
    tensorParallel === undefined ? replicatedLayouts : layerLayouts(build, tensorParallel);
  let index = 0;
  return constructParts((bytes, { shape, dtype }) => {
    const outer = layoutOf(index++, shape);
    const local = localShape(shape, outer, ownPlace);
    const sharding = shardingOfRule(rule, shape);
    const layout = joinLayouts(outer, layoutOver(axis, sharding, shape.length));
    const elementBytes = dtypes[dtype].bytes;
    const part = new Uint8Array(elementCount(partShape(local, sharding, size)) * elementBytes);
    part.set(takeChunks(bytes, shape, chunksOf(shape, layout, ownPlace), elementBytes));
    return { bytes: part, layout };
  }, build);
}

/** What part of the parameter that was made as the n-th one a rank computes with. */
type LayoutOf = (index: number, shape: Shape) => Layout;

const replicatedLayouts: LayoutOf = (_, shape) => replicated(shape);

function layerLayouts(build: () => Module, options: ConstructPartitioned): LayoutOf {
  checkOptions('constructSharded, tensorParallel,', options, partitionedRules);
  const { styles, axis = 'tp' } = options;
  const { size } = ownPlace(axis);
  const state = randomState();
  const made: InitialPart[] = [];
  const sample = constructParts((_, { shape }) => {
    const mark = { bytes: new Uint8Array(), layout: replicated(shape) };
    made.push(mark);
    return mark;
  }, build);
  setRandomState(state);
  const byName = shardingsOf(styles, modelSpec(sample), size);
  const byMark = new Map<InitialPart | null, DimSharding>();
  for (const [name, { initialPart }] of sample.namedParameters()) {
    const sharding = byName.get(name);
    if (sharding !== undefined) byMark.set(initialPart, sharding);
  }
  return (index, shape) =>
    layoutOver(axis, byMark.get(made[index] ?? null) ?? 'invariant', shape.length);
}

import {
  axisOf,
  checkOptions,
  constructParts,
  currentSession,
  dtypes,
  elementCount,
  type Extent,
  extentOfWhole,
  type InitialPart,
  type Module,
  option,
  type OptionRules,
  partOfExtent,
  randomState,
  setRandomState,
  type Shape,
  takeExtent,
} from '@shardwise/core/extend';
import { parameterSpecs } from '../parameter-specs.ts';
import { type Partition, partExtent, partShape } from '../tensor-parallel/partition.ts';
import { partitionsOf, type StylePlan } from '../tensor-parallel/tensor-parallel-plan.ts';
import { type CutRule, cutOf, rangeOf } from './cut.ts';

export interface ConstructShardedOptions {
  /** The mesh axis over which the strategy will share out the parameters. Default: `dp`. */
  readonly axis?: string;
  /** As the strategy cuts: `rows` for fsdp, `flat` for zero. Default: `rows`. */
  readonly rule?: CutRule;
  /** For a strategy composed with tensor parallelism: what that is given. */
  readonly tensorParallel?: ConstructPartitioned;
}

export interface ConstructPartitioned {
  readonly styles: StylePlan;
  /** Default: `tp`. */
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
  const { size, rank } = axisOf(currentSession().mesh, axis);
  const ownPart = tensorParallel === undefined ? wholes : partitioned(build, tensorParallel);
  let index = 0;
  return constructParts((bytes, { shape, dtype }) => {
    const own = ownPart(index++, shape);
    const cut = cutOf(own.shape, shape.length === 0 ? 'flat' : rule, size);
    const extent = partOfExtent(own.extent, ...rangeOf(cut, rank));
    const elementBytes = dtypes[dtype].bytes;
    const part = new Uint8Array(elementCount(cut.partShape) * elementBytes);
    part.set(takeExtent(bytes, extent, elementBytes));
    return { bytes: part, extent };
  }, build);
}

/** What a rank computes with of the parameter that was made as the n-th one, and where that lies. */
type OwnPart = (index: number, shape: Shape) => { readonly shape: Shape; readonly extent: Extent };

const wholes: OwnPart = (_, shape) => ({ shape, extent: extentOfWhole(shape) });

function partitioned(build: () => Module, options: ConstructPartitioned): OwnPart {
  checkOptions('constructSharded, tensorParallel,', options, partitionedRules);
  const { styles, axis = 'tp' } = options;
  const { size, rank } = axisOf(currentSession().mesh, axis);
  const state = randomState();
  const made: InitialPart[] = [];
  const sample = constructParts((_, { shape }) => {
    const mark = { bytes: new Uint8Array(), extent: extentOfWhole(shape) };
    made.push(mark);
    return mark;
  }, build);
  setRandomState(state);
  const byName = partitionsOf(styles, parameterSpecs(sample), size);
  const byMark = new Map<InitialPart | null, Partition>();
  for (const [name, { initialPart }] of sample.namedParameters()) {
    const partition = byName.get(name);
    if (partition !== undefined) byMark.set(initialPart, partition);
  }
  return (index, shape) => {
    const partition = byMark.get(made[index] ?? null);
    if (partition === undefined) return wholes(index, shape);
    return {
      shape: partShape(partition, shape, size),
      extent: partExtent(partition, shape, size, rank),
    };
  };
}

import { option, type OptionRules } from '@shardwise/core/extend';
import { type ScheduleName, scheduleNames } from '@shardwise/strategies';
import type { ClusterDescription } from '../cluster/cluster.ts';
import type { Offload, RunLayout, Workload } from '../cost/run-layout.ts';
import { fillsRounds } from '../cost/schedule-facts.ts';
import type { Recompute } from '../model/activations.ts';
import type { ModelDescription } from '../model/model-description.ts';
import type { Precision, ZeroStage } from '../model/states.ts';

/** Which layouts are considered. Default of each: all that strategies can carry out. */
export interface SearchSpace {
  readonly tensorParallel?: readonly number[];
  readonly pipelineParallel?: readonly number[];
  /** Default: 1, because no strategy divides sequences among ranks in all of a model. */
  readonly contextParallel?: readonly number[];
  readonly expertParallel?: readonly number[];
  readonly zero?: readonly ZeroStage[];
  readonly schedule?: readonly ScheduleName[];
  readonly stagesPerRank?: readonly number[];
  readonly rows?: readonly number[];
  readonly recompute?: readonly Recompute[];
  readonly offload?: readonly Offload[];
  /** Default: attention by blocks. */
  readonly flashAttention?: readonly boolean[];
}

const sizes = option.listOf(option.integer(1));

export const spaceRules: OptionRules<SearchSpace> = {
  tensorParallel: sizes,
  pipelineParallel: sizes,
  contextParallel: sizes,
  expertParallel: sizes,
  zero: option.listOf(option.oneOf(0, 1, 2, 3)),
  schedule: option.listOf(option.oneOf(...scheduleNames)),
  stagesPerRank: option.listOf(option.integer(1, 64)),
  rows: sizes,
  recompute: option.listOf(option.oneOf('none', 'selective', 'full', 'offload')),
  offload: option.listOf(option.oneOf('nothing', 'optimizer', 'optimizer and parameters')),
  flashAttention: option.listOf(option.flag),
};

/** Schedules that are worth a search. The others are never faster, or only for evaluation. */
const usualSchedules: readonly ScheduleName[] = [
  '1f1b',
  'interleaved1f1b',
  'zb1p',
  'zbv',
  'dualPipeV',
];
const twoStages: ReadonlySet<ScheduleName> = new Set(['zbv', 'vHalf', 'vMin', 'dualPipeV']);
const severalStages: ReadonlySet<ScheduleName> = new Set(['interleaved1f1b', 'loopedBfs']);

/** The order in which layouts are visited: sizes of the mesh, and for each what a rank does in it. */
export interface MeshSizes {
  readonly dataParallel: number;
  readonly tensorParallel: number;
  readonly pipelineParallel: number;
  readonly contextParallel: number;
}

/** All ways to write the number of devices as a product of the sizes of a mesh. */
export function* meshes(devices: number, space: SearchSpace): Generator<MeshSizes> {
  const allowed = (sizes: readonly number[] | undefined, size: number): boolean =>
    sizes === undefined || sizes.includes(size);
  const { contextParallel: contexts = [1] } = space;
  for (const tensorParallel of divisors(devices)) {
    if (!allowed(space.tensorParallel, tensorParallel)) continue;
    for (const contextParallel of contexts) {
      const left = devices / tensorParallel / contextParallel;
      if (!Number.isInteger(left)) continue;
      for (const pipelineParallel of divisors(left)) {
        if (!allowed(space.pipelineParallel, pipelineParallel)) continue;
        const dataParallel = left / pipelineParallel;
        yield { dataParallel, tensorParallel, pipelineParallel, contextParallel };
      }
    }
  }
}

/** The layouts of a mesh, without rows and recomputation. */
export function* layoutsOf(
  mesh: MeshSizes,
  model: ModelDescription,
  cluster: ClusterDescription,
  precision: Precision,
  space: SearchSpace,
): Generator<Omit<RunLayout, 'rows' | 'recompute'>> {
  const { dataParallel, tensorParallel, pipelineParallel, contextParallel } = mesh;
  const experts = model.kind === 'transformer' ? model.experts : null;
  const expertSizes =
    space.expertParallel ??
    (experts === null ? [1] : divisors(dataParallel).filter((size) => experts.count % size === 0));
  const zeros: readonly ZeroStage[] = space.zero ?? [0, 1, 2, 3];
  const onHost = Math.floor(cluster.devicesPerHost / (tensorParallel * contextParallel));
  for (const expertParallel of expertSizes) {
    for (const zero of zeros.filter((stage) => stage === 0 || dataParallel > 1)) {
      // Hybrid sharding divides the states among the ranks of a host.
      const isHybrid =
        zero === 3 && onHost > 1 && onHost < dataParallel && dataParallel % onHost === 0;
      for (const shardRanks of zero === 0
        ? [1]
        : isHybrid
          ? [dataParallel, onHost]
          : [dataParallel]) {
        for (const { schedule, stagesPerRank } of schedulesOf(pipelineParallel, space)) {
          for (const offload of space.offload ??
            (['nothing', 'optimizer', 'optimizer and parameters'] as const)) {
            for (const flashAttention of space.flashAttention ?? [true]) {
              yield {
                ...mesh,
                expertParallel,
                zero,
                shardRanks,
                sequenceParallel: tensorParallel > 1,
                schedule,
                stagesPerRank,
                offload,
                precision,
                flashAttention,
              };
            }
          }
        }
      }
    }
  }
}

function* schedulesOf(
  ranks: number,
  { schedule: names = usualSchedules, stagesPerRank: counts = [1, 2, 3, 4, 5, 6, 8] }: SearchSpace,
): Generator<{ readonly schedule: ScheduleName; readonly stagesPerRank: number }> {
  if (ranks === 1) {
    yield { schedule: '1f1b', stagesPerRank: 1 };
    return;
  }
  for (const schedule of names) {
    if (twoStages.has(schedule)) yield { schedule, stagesPerRank: 2 };
    else if (!severalStages.has(schedule)) yield { schedule, stagesPerRank: 1 };
    else
      for (const stagesPerRank of counts.filter((count) => count > 1))
        yield { schedule, stagesPerRank };
  }
}

/** The rows of a microbatch that divide the part of the batch of a rank: powers of two, and all of its rows. */
export function rowsOf(
  layout: MeshSizes,
  { batch }: Workload,
  space: SearchSpace,
): readonly number[] {
  const own = batch / layout.dataParallel;
  if (!Number.isInteger(own)) return [];
  const candidates = space.rows ?? [...powersOfTwo(own), ...(own <= 64 ? [own] : [])];
  return [...new Set(candidates)].filter((rows) => own % rows === 0).toSorted((a, b) => a - b);
}

/** Why a mesh does not fit a model and a cluster, in words. Null if it does. */
export function misfitOf(
  mesh: MeshSizes,
  model: ModelDescription,
  cluster: ClusterDescription,
  { batch, sequence }: Workload,
): string | null {
  const { dataParallel, tensorParallel: tp, pipelineParallel: pp, contextParallel: cp } = mesh;
  if (batch % dataParallel !== 0) return `the batch of ${batch} rows is not divided by dp`;
  const layers = model.kind === 'transformer' ? model.layers : model.modules.length;
  if (pp > layers) return `pp is more than the ${layers} layers`;
  if (model.kind === 'modules') {
    if (tp > 1) return 'the model says nothing of how its layers are divided (tp)';
    return cp > 1 ? 'the model says nothing of its sequences (cp)' : null;
  }
  if (model.heads % tp !== 0) return `tp does not divide the ${model.heads} heads`;
  if (model.keyValueHeads % tp !== 0 && tp % model.keyValueHeads !== 0) {
    return `tp neither divides the ${model.keyValueHeads} heads of keys nor is a multiple of them`;
  }
  if (model.feedForward % tp !== 0) return 'tp does not divide the feed-forward network';
  if (sequence % (tp * cp) !== 0) return `tp × cp do not divide the sequence of ${sequence} tokens`;
  if (tp > cluster.devicesPerHost && tp % cluster.devicesPerHost !== 0)
    return 'tp spans parts of hosts';
  return null;
}

/** Why a layout of a mesh that fits cannot run. Null if it can. */
export function refusalOf(
  layout: Omit<RunLayout, 'rows' | 'recompute'>,
  microbatches: number,
  model: ModelDescription,
): string | null {
  const isTransformer = model.kind === 'transformer';
  const layers = isTransformer ? model.layers : model.modules.length;
  const experts = (isTransformer ? model.experts?.count : undefined) ?? 1;
  const {
    pipelineParallel: pp,
    stagesPerRank,
    schedule,
    zero,
    expertParallel,
    dataParallel,
  } = layout;
  if (pp * stagesPerRank > layers) return `more stages than the ${layers} layers`;
  if (pp > 1 && microbatches < pp) return 'fewer microbatches than ranks of the pipeline';
  if (!fillsRounds(schedule, pp, microbatches)) {
    return `${schedule} has rounds that the microbatches do not fill`;
  }
  if (schedule === 'dualPipeV' && microbatches < 2 * pp) {
    return 'dualPipeV needs twice as many microbatches as ranks';
  }
  if (pp > 1 && zero > 1) return 'a pipeline with zero 2 or 3 communicates for each microbatch';
  if (dataParallel % expertParallel !== 0) return 'ep does not divide dp';
  if (experts % expertParallel !== 0) return `ep does not divide ${experts} experts`;
  if (layout.offload === 'optimizer and parameters' && zero < 3) {
    return 'parameters that are on the host are divided, and gathered for each layer (zero 3)';
  }
  return layout.offload !== 'nothing' && zero === 0 && dataParallel > 1
    ? 'states that are on the host are divided first'
    : null;
}

/** All devices of a cluster, or of its first hosts: 1, 2, 4, … of them. */
export function clusterSizes(cluster: ClusterDescription): readonly ClusterDescription[] {
  return [...powersOfTwo(cluster.hosts - 1), cluster.hosts].map((hosts) => ({ ...cluster, hosts }));
}

/** Returns the divisors of a number, in ascending order. */
function divisors(number: number): readonly number[] {
  const small = Array.from(
    { length: Math.floor(Math.sqrt(number)) },
    (_, index) => index + 1,
  ).filter((each) => number % each === 0);
  return [...new Set([...small, ...small.map((each) => number / each).toReversed()])];
}

function powersOfTwo(most: number): readonly number[] {
  return Array.from(
    { length: Math.max(0, Math.floor(Math.log2(most)) + 1) },
    (_, power) => 2 ** power,
  );
}

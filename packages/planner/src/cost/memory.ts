import type { ClusterDescription } from '../cluster/cluster.ts';
import { precisions } from '../model/states.ts';
import type { ModelDescription } from '../model/model-description.ts';
import { blocksOf } from './blocks.ts';
import { microbatchesOf, type RunLayout, type Workload } from './run-layout.ts';
import { scheduleFacts } from './schedule-facts.ts';
import { type Place, placesOf } from './stages.ts';

/** The bytes of one rank by kind, when they are most. */
export interface RankMemory {
  readonly parameters: number;
  readonly gradients: number;
  readonly optimizer: number;
  readonly activations: number;
  /** What exists while one layer runs: its activations that are computed again, its gathered parameters, the logits. */
  readonly temporaries: number;
  /** What the allocator takes besides, and the runtime of the device. */
  readonly overhead: number;
}

/** The memory of the rank of a pipeline that needs most. */
export interface PlannedMemory {
  readonly kinds: RankMemory;
  readonly totalBytes: number;
  /** The place in the pipeline of the rank that needs most. */
  readonly place: number;
  /** The bytes that each rank keeps in the memory of its host. */
  readonly hostBytes: number;
}

/** The kinds of memory, in the order in which they are printed. */
export const memoryKinds: readonly (keyof RankMemory)[] = [
  'parameters',
  'gradients',
  'optimizer',
  'activations',
  'temporaries',
  'overhead',
];

/** Adds up the kinds. */
function totalOf(kinds: RankMemory): number {
  return memoryKinds.reduce((sum, kind) => sum + kinds[kind], 0);
}

/** Returns the memory of the rank that needs most, with what the allocator and the runtime of the cluster add. */
export function plannedMemory(
  model: ModelDescription,
  layout: RunLayout,
  workload: Workload,
  { efficiency }: Pick<ClusterDescription, 'efficiency'>,
): PlannedMemory {
  const blocks = blocksOf(model, layout, workload);
  const { inFlight } = scheduleFacts(
    layout.schedule,
    layout.pipelineParallel,
    layout.stagesPerRank,
    microbatchesOf(layout, workload),
  );
  const places = placesOf(blocks, layout).map((place, index): PlannedMemory => {
    const { kinds, hostBytes } = memoryOfPlace(place, layout, inFlight[index] ?? 1);
    const tensors = totalOf(kinds);
    const overhead = tensors * (efficiency.allocator - 1) + efficiency.runtimeBytes;
    return {
      kinds: { ...kinds, overhead },
      totalBytes: tensors + overhead,
      place: index,
      hostBytes,
    };
  });
  return places.reduce((most, each) => (each.totalBytes > most.totalBytes ? each : most));
}

/** The bytes of states and activations of a place, without what the allocator adds. */
function memoryOfPlace(
  place: Place,
  layout: RunLayout,
  inFlight: number,
): { readonly kinds: RankMemory; readonly hostBytes: number } {
  const { zero, offload, shardRanks, contextParallel, expertParallel } = layout;
  const bytes = precisions[layout.precision];
  // Experts are on a part of the ranks of data parallelism, so fewer of them divide the states of each.
  const parts = shardRanks * contextParallel;
  const expertParts = Math.max(1, parts / expertParallel);
  const divided = (from: number): number =>
    zero >= from
      ? place.parameters / parts + place.expertParameters / expertParts
      : place.parameters + place.expertParameters;
  const states = {
    parameters: bytes.parameter * divided(3),
    gradients: bytes.gradient * divided(2),
    optimizer: bytes.optimizer * divided(1),
  };
  const keepsOptimizer = offload === 'nothing';
  const keepsParameters = offload !== 'optimizer and parameters';
  const gathered =
    zero === 3 || !keepsParameters
      ? 2 * (bytes.parameter + bytes.gradient) * place.largestParameters
      : 0;
  return {
    kinds: {
      parameters: keepsParameters ? states.parameters : 0,
      gradients: states.gradients,
      optimizer: keepsOptimizer ? states.optimizer : 0,
      activations: place.activationBytes * inFlight,
      temporaries: place.largestLiveBytes + gathered,
      overhead: 0,
    },
    hostBytes:
      (keepsOptimizer ? 0 : states.optimizer) +
      (keepsParameters ? 0 : states.parameters) +
      place.offloadedBytes * inFlight,
  };
}

import type { ClusterDescription } from '../cluster/cluster.ts';
import { blocksOf } from '../cost/blocks.ts';
import { groupLink } from '../cost/group-link.ts';
import {
  microbatchesOf,
  partsBetweenStages,
  partsOfStates,
  type RunLayout,
  type Workload,
} from '../cost/run-layout.ts';
import { scheduleFacts } from '../cost/schedule-facts.ts';
import { placesOf } from '../cost/stages.ts';
import type { ModelDescription } from '../model/model-description.ts';
import { precisions } from '../model/states.ts';

/**
 * What the slowest rank of a step does, counted. The seconds of a step are a sum of these with one constant for each, which
 * is the inverse of a rate of the device or of a link, or the time of a call. `stepSums` says which of them add up.
 */
export interface StepQuantities {
  /** Floating-point operations of layers, with what is computed again and the waiting of the pipeline. */
  readonly layerFlops: number;
  /** Floating-point operations of the logits, in the same way. */
  readonly logitFlops: number;
  /** Bytes that are read and written by what is no product. */
  readonly movedBytes: number;
  /** Layers that are computed. Each has a number of kernels, between which the device waits. */
  readonly layers: number;
  /** The same layers, for the host that starts their kernels. It goes on while the device computes those before. */
  readonly startedLayers: number;
  /** Bytes that a rank sends in all-reduces of tensor parallelism, inside of a host and between hosts. */
  readonly tensorInsideBytes: number;
  readonly tensorBetweenBytes: number;
  /** All-reduces of tensor parallelism. Each starts when the slowest of its ranks does, whatever its bytes. */
  readonly tensorMessages: number;
  /** Bytes that a rank sends for its gradients. */
  readonly dataInsideBytes: number;
  readonly dataBetweenBytes: number;
  readonly pipelineBytes: number;
  /** Messages to the next stage and back. The host of a rank starts each, and agrees with the other on what it has. */
  readonly pipelineMessages: number;
  /** Bytes that the optimizer reads and writes. */
  readonly updatedBytes: number;
  /** The steps of a tree over all hosts, for what agreeing on a step takes them, whatever its sizes. 0 on one host. */
  readonly stepsBetween: number;
}

/** The quantities, in the order of the constants. */
export const stepQuantities: readonly (keyof StepQuantities)[] = [
  'layerFlops',
  'logitFlops',
  'movedBytes',
  'layers',
  'startedLayers',
  'tensorInsideBytes',
  'tensorBetweenBytes',
  'tensorMessages',
  'dataInsideBytes',
  'dataBetweenBytes',
  'pipelineBytes',
  'pipelineMessages',
  'updatedBytes',
  'stepsBetween',
];

/** What the device does while the host starts kernels. */
const onDevice: ReadonlySet<keyof StepQuantities> = new Set([
  'layerFlops',
  'logitFlops',
  'movedBytes',
  'layers',
  'tensorInsideBytes',
  'tensorBetweenBytes',
  'tensorMessages',
] as const);

/**
 * The two sums of which the larger one is the time of a step, in the order of the constants. A host starts kernels without
 * waiting for them. So layers take what the device takes, or, if their kernels are small, what it takes to start them
 * (in vTrain's runs on one node 3.5 ms for each layer, whether a microbatch has 1, 2 or 4 rows).
 */
export function stepSums(counted: StepQuantities): {
  readonly device: readonly number[];
  readonly host: readonly number[];
} {
  const without = (isLeftOut: (quantity: keyof StepQuantities) => boolean): readonly number[] =>
    stepQuantities.map((quantity) => (isLeftOut(quantity) ? 0 : counted[quantity]));
  return {
    device: without((quantity) => quantity === 'startedLayers'),
    host: without((quantity) => onDevice.has(quantity)),
  };
}

/** Counts what the slowest rank does in a step. */
export function quantitiesOf(
  model: ModelDescription,
  layout: RunLayout,
  workload: Workload,
  cluster: ClusterDescription,
): StepQuantities {
  const blocks = blocksOf(model, layout, workload);
  const places = placesOf(blocks, layout);
  const slowest = places.reduce((a, b) => (b.forwardFlops > a.forwardFlops ? b : a));
  const microbatches = microbatchesOf(layout, workload);
  const { pipelineParallel: pp, tensorParallel: tp, dataParallel, contextParallel: cp } = layout;
  const { bubble } = scheduleFacts(layout.schedule, pp, layout.stagesPerRank, microbatches);
  const slots = microbatches + bubble;
  const logits = places.length === 1 || slowest === places.at(-1) ? blocks.last : undefined;
  const ofLayers = slowest.forwardFlops - (logits?.forwardFlops ?? 0);
  const sent = (bytes: number, size: number): number => (2 * bytes * (size - 1)) / size;
  const tensor = slots * sent(slowest.tensorBytes, tp);
  const isTensorInside = groupLink(cluster, tp, 1).kind !== 'between';
  const elements = Math.max(...places.map((place) => place.parameters + place.expertParameters));
  const bytes = precisions[layout.precision];
  const data = sent(bytes.gradient * elements, dataParallel * cp);
  const isDataInside = groupLink(cluster, dataParallel * cp, tp).kind !== 'between';
  const pipelineMessages = pp === 1 ? 0 : 2 * slots * layout.stagesPerRank;
  const perLayer = slowest.layers === 0 ? 0 : slowest.outputBytes / slowest.layers;
  return {
    layerFlops: slots * (3 * ofLayers + slowest.recomputedFlops),
    logitFlops: slots * 3 * blocks.last.forwardFlops,
    movedBytes: slots * (slowest.movedBytes + slowest.recomputedBytes),
    layers: slots * slowest.layers,
    startedLayers: slots * slowest.layers,
    tensorInsideBytes: isTensorInside ? tensor : 0,
    tensorBetweenBytes: isTensorInside ? 0 : tensor,
    tensorMessages: slots * slowest.tensorReductions,
    dataInsideBytes: isDataInside ? data : 0,
    dataBetweenBytes: isDataInside ? 0 : data,
    pipelineBytes: (pipelineMessages * perLayer) / partsBetweenStages(layout),
    pipelineMessages,
    updatedBytes:
      (elements * (bytes.gradient + 2 * bytes.optimizer + bytes.parameter)) / partsOfStates(layout),
    stepsBetween: Math.log2(cluster.hosts),
  };
}

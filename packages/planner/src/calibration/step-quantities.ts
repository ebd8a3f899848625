import type { ClusterDescription } from '../cluster/cluster.ts';
import { blocksOf } from '../cost/blocks.ts';
import { groupLink } from '../cost/group-link.ts';
import {
  microbatchesOf,
  partsOfStates,
  type RunLayout,
  type Workload,
} from '../cost/run-layout.ts';
import { scheduleFacts } from '../cost/schedule-facts.ts';
import { placesOf } from '../cost/stages.ts';
import type { ModelDescription } from '../model/model-description.ts';
import { precisions } from '../model/states.ts';

/**
 * What the slowest rank of a step does, counted. The seconds of a step are the sum of these with one constant for
 * each, which is the inverse of a rate of the device or of a link, or the time of a call.
 */
export interface StepQuantities {
  /** Floating-point operations of layers, with what is computed again and the waiting of the pipeline. */
  readonly layerFlops: number;
  /** Floating-point operations of the logits, in the same way. */
  readonly logitFlops: number;
  /** Bytes that are read and written by what is no product. */
  readonly movedBytes: number;
  /** Layers that are computed. Each has a number of calls of kernels. */
  readonly layers: number;
  /** Bytes that a rank sends in all-reduces of tensor parallelism, inside of a host and between hosts. */
  readonly tensorInsideBytes: number;
  readonly tensorBetweenBytes: number;
  /** Bytes that a rank sends for its gradients. */
  readonly dataInsideBytes: number;
  readonly dataBetweenBytes: number;
  readonly pipelineBytes: number;
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
  'tensorInsideBytes',
  'tensorBetweenBytes',
  'dataInsideBytes',
  'dataBetweenBytes',
  'pipelineBytes',
  'updatedBytes',
  'stepsBetween',
];

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
  const perLayer = slowest.layers === 0 ? 0 : slowest.outputBytes / slowest.layers;
  return {
    layerFlops: slots * (3 * ofLayers + slowest.recomputedFlops),
    logitFlops: slots * 3 * blocks.last.forwardFlops,
    movedBytes: slots * (slowest.movedBytes + slowest.recomputedBytes),
    layers: slots * slowest.layers,
    tensorInsideBytes: isTensorInside ? tensor : 0,
    tensorBetweenBytes: isTensorInside ? 0 : tensor,
    dataInsideBytes: isDataInside ? data : 0,
    dataBetweenBytes: isDataInside ? 0 : data,
    pipelineBytes: pp === 1 ? 0 : 2 * slots * layout.stagesPerRank * perLayer,
    updatedBytes:
      (elements * (bytes.gradient + 2 * bytes.optimizer + bytes.parameter)) / partsOfStates(layout),
    stepsBetween: Math.log2(cluster.hosts),
  };
}

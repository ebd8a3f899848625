import type { ClusterDescription } from '../cluster/cluster.ts';
import type { ModelDescription } from '../model/model-description.ts';
import { type Precision, precisions } from '../model/states.ts';
import { blocksOf } from './blocks.ts';
import {
  allReduceSeconds,
  groupLink,
  hostLink,
  messageSeconds,
  oneWaySeconds,
} from './group-link.ts';
import {
  microbatchesOf,
  partsBetweenStages,
  partsOfStates,
  type RunLayout,
  type Workload,
} from './run-layout.ts';
import { scheduleFacts } from './schedule-facts.ts';
import { type Place, placesOf } from './stages.ts';

/** The seconds of a step by what they are for. Communication is what computation does not hide. */
export interface StepTerms {
  /** Forward and backward passes. */
  readonly compute: number;
  /** What backward passes compute again. */
  readonly recompute: number;
  /** The time in which the slowest rank waits for the first and the last microbatches. */
  readonly bubble: number;
  readonly tensorParallel: number;
  readonly contextParallel: number;
  readonly expertParallel: number;
  readonly pipelineParallel: number;
  readonly dataParallel: number;
  readonly optimizer: number;
  readonly offload: number;
}

/** The terms, in the order in which they are printed. */
export const stepTerms: readonly (keyof StepTerms)[] = [
  'compute',
  'recompute',
  'bubble',
  'tensorParallel',
  'contextParallel',
  'expertParallel',
  'pipelineParallel',
  'dataParallel',
  'optimizer',
  'offload',
];

/** How terms are called in tables and legends. */
export const stepTermNames: Readonly<Record<keyof StepTerms, string>> = {
  compute: 'forward and backward',
  recompute: 'recomputation',
  bubble: 'bubble',
  tensorParallel: 'tensor parallelism',
  contextParallel: 'context parallelism',
  expertParallel: 'expert parallelism',
  pipelineParallel: 'pipeline parallelism',
  dataParallel: 'data parallelism',
  optimizer: 'optimizer',
  offload: 'offload',
};

/** Adds up the terms: the seconds of a step. */
export function secondsOf(terms: StepTerms): number {
  return stepTerms.reduce((sum, term) => sum + terms[term], 0);
}

/** The seconds that a microbatch takes on one rank, in its forward and backward pass together. */
export interface MicrobatchTime {
  readonly compute: number;
  readonly recompute: number;
  readonly tensorParallel: number;
  readonly contextParallel: number;
  readonly expertParallel: number;
  readonly pipelineParallel: number;
  /** What computation does not hide of the copies of activations to the host and back. */
  readonly offload: number;
}

/** The share of a backward pass during which gradients can travel while others are computed. */
const HIDING_SHARE = 0.8;

/** The operations per second of products at the peak, in the precision in which a run computes them. */
export function peakFlops({ device }: ClusterDescription, precision: Precision): number {
  return precision === 'f32' ? device.flops.f32 : device.flops.half;
}

/** Predicts the terms of a step. The rank of a pipeline that takes longest for a microbatch determines them. */
export function stepTermsOf(
  model: ModelDescription,
  layout: RunLayout,
  workload: Workload,
  cluster: ClusterDescription,
): StepTerms {
  const blocks = blocksOf(model, layout, workload);
  const places = placesOf(blocks, layout);
  const times = places.map((place) => microbatchTime(place, layout, cluster));
  const slowest = times.reduce((most, each) => (sumOf(each) > sumOf(most) ? each : most));
  const microbatches = microbatchesOf(layout, workload);
  const { pipelineParallel, stagesPerRank, schedule } = layout;
  const { bubble } = scheduleFacts(schedule, pipelineParallel, stagesPerRank, microbatches);
  const inStep = (term: keyof MicrobatchTime): number => microbatches * slowest[term];
  const compute = inStep('compute');
  // The last microbatch's backward pass hides the reduction of gradients.
  const hiding = hidingSeconds(slowest, cluster);
  const steps = places.map((place) => updateTime(place, layout, microbatches, cluster, hiding));
  const most = steps.reduce((a, b) => (sumOf(b) > sumOf(a) ? b : a));
  return {
    compute,
    recompute: inStep('recompute'),
    bubble: bubble * sumOf(slowest),
    tensorParallel: inStep('tensorParallel'),
    contextParallel: inStep('contextParallel'),
    expertParallel: inStep('expertParallel'),
    pipelineParallel: inStep('pipelineParallel'),
    ...most,
    offload: inStep('offload') + most.offload,
  };
}

/** The part of a microbatch's backward pass that hides the reduction of gradients. */
export function hidingSeconds(
  { compute }: MicrobatchTime,
  { links: { overlap } }: ClusterDescription,
): number {
  return overlap * HIDING_SHARE * (2 / 3) * compute;
}

/** The seconds of a microbatch at a place of the pipeline. */
export function microbatchTime(
  place: Place,
  layout: RunLayout,
  cluster: ClusterDescription,
): MicrobatchTime {
  const { tensorParallel: tp, contextParallel: cp, expertParallel: ep, stagesPerRank } = layout;
  const { device, efficiency } = cluster;
  const flops = peakFlops(cluster, layout.precision) * efficiency.products;
  const moved = place.movedBytes / (device.memoryBytesPerSecond * efficiency.memory);
  const calls = place.calls * device.launchSeconds;
  const compute = (3 * place.forwardFlops) / flops + moved + calls;
  const recompute =
    place.recomputedFlops / flops +
    place.recomputedBytes / (device.memoryBytesPerSecond * efficiency.memory);
  const tensorLink = groupLink(cluster, tp, 1);
  const { tensorReductions: reductions } = place;
  const perReduction = reductions === 0 ? 0 : place.tensorBytes / reductions;
  const contextLink = groupLink(cluster, cp, tp);
  const ring = (3 * place.contextBytes) / contextLink.bytesPerSecond;
  const travel = (cluster.links.overlap * compute) / 2;
  const expertLink = groupLink(cluster, ep, tp * cp);
  const exchanges = place.expertBytes === 0 ? 0 : 2 * place.layers;
  const pipelineLink = groupLink(cluster, layout.pipelineParallel, tp * cp * layout.dataParallel);
  const perMessage = place.layers === 0 ? 0 : place.outputBytes / place.layers;
  const parts = partsBetweenStages(layout);
  const stageMessage =
    messageSeconds(perMessage / parts, pipelineLink) + oneWaySeconds(perMessage, parts, tensorLink);
  return {
    compute,
    recompute,
    tensorParallel: reductions * allReduceSeconds(perReduction, tp, tensorLink),
    // Blocks of keys travel while those before are computed with.
    contextParallel: Math.max(0, ring - travel) + (cp > 1 ? 0.1 * Math.min(ring, travel) : 0),
    expertParallel:
      (2 * place.expertBytes) / expertLink.bytesPerSecond +
      2 * exchanges * (ep - 1) * expertLink.latencySeconds,
    pipelineParallel: layout.pipelineParallel === 1 ? 0 : 2 * stagesPerRank * stageMessage,
    offload: exposedCopySeconds(place.offloadedBytes, compute, cluster),
  };
}

/**
 * What computation does not hide of copying activations to the host in the forward pass, and back in the backward pass, which
 * takes twice as long.
 */
export function exposedCopySeconds(
  bytes: number,
  computeSeconds: number,
  cluster: ClusterDescription,
): number {
  const copying = messageSeconds(bytes, hostLink(cluster));
  const exposed = (share: number): number =>
    Math.max(0, copying - cluster.links.overlap * share * computeSeconds);
  return exposed(1 / 3) + exposed(2 / 3);
}

/** The seconds after the last backward pass, and those of the gathers of ZeRO-3, which are for each microbatch. */
export function updateTime(
  place: Place,
  layout: RunLayout,
  microbatches: number,
  cluster: ClusterDescription,
  hiding: number,
): Pick<StepTerms, 'dataParallel' | 'optimizer' | 'offload'> {
  const { zero, offload, contextParallel: cp, tensorParallel: tp, dataParallel } = layout;
  const bytes = precisions[layout.precision];
  const ranks = dataParallel * cp;
  const link = groupLink(cluster, ranks, tp);
  const shardLink = groupLink(cluster, layout.shardRanks * cp, tp);
  const elements = place.parameters + place.expertParameters;
  const parts = partsOfStates(layout);
  const gradientBytes = bytes.gradient * elements;
  const { sentTensors } = place;
  const { memoryBytesPerSecond, updateBytesPerSecond = memoryBytesPerSecond } = cluster.device;
  // Gradients that all ranks keep are reduced in buckets; those of ranks that divide states as they are divided.
  const buckets = Math.ceil(gradientBytes / BUCKET_BYTES);
  const messages = Math.max(1, zero === 0 ? Math.min(buckets, sentTensors) : sentTensors);
  const reduction = allReduceSeconds(gradientBytes, ranks, link, messages);
  // What is scattered is copied into the parts of the ranks, and what is gathered out of them.
  const copying = (whole: number): number =>
    parts === 1 ? 0 : (2 * whole) / (memoryBytesPerSecond * cluster.efficiency.memory);
  const parameterBytes = bytes.parameter * elements;
  // Each gradient has a call that puts it into its bucket, and one that takes it out.
  const placing = ranks === 1 ? 0 : 2 * sentTensors * cluster.device.launchSeconds;
  const besides = zero === 0 ? placing : copying(gradientBytes) + copying(parameterBytes);
  const oneWay = (whole: number, sent: number): number =>
    copying(whole) + oneWaySeconds(whole, layout.shardRanks * cp, shardLink, sent);
  // ZeRO-3 gathers parameters in each forward pass, and in each backward pass those that it reads. There it scatters gradients.
  const gathers =
    zero < 3
      ? 0
      : microbatches *
        (oneWay(parameterBytes, messages) +
          oneWay(bytes.parameter * place.regatheredParameters, place.regatheredTensors) +
          oneWay(gradientBytes, messages));
  const between =
    zero < 3 ? reduction + besides : layout.shardRanks < dataParallel ? reduction / parts : 0;
  const hidden = zero < 3 ? hiding : hiding * microbatches * 1.5;
  const share = elements / parts;
  const updated = updatedBytes(place, layout);
  const isOnHost = offload !== 'nothing';
  const moved =
    (offload === 'nothing' ? 0 : share * (bytes.gradient + bytes.parameter)) +
    (offload === 'optimizer and parameters' ? 2 * microbatches * share * bytes.parameter : 0);
  // The updates of all devices of a host share the bandwidth of its memory.
  const hostUpdate = (updated * cluster.devicesPerHost) / HOST_BYTES_PER_SECOND;
  return {
    dataParallel: Math.max(0, gathers + between - hidden),
    optimizer: isOnHost ? 0 : updated / (updateBytesPerSecond * cluster.efficiency.memory),
    offload: isOnHost ? hostUpdate + messageSeconds(moved, hostLink(cluster)) : 0,
  };
}

/** The bytes that the update of a rank reads and writes: the gradient and the states, then the states and the parameter. */
function updatedBytes(
  { parameters, expertParameters }: Pick<Place, 'parameters' | 'expertParameters'>,
  layout: RunLayout,
): number {
  const { gradient, optimizer, parameter } = precisions[layout.precision];
  const share = (parameters + expertParameters) / partsOfStates(layout);
  return share * (gradient + 2 * optimizer + parameter);
}

/** The bytes of gradients that are reduced in one message, as in PyTorch. */
const BUCKET_BYTES = 25 * 2 ** 20;

/** What the processors of a host read and write together. */
const HOST_BYTES_PER_SECOND = 200e9;

function sumOf<Terms extends Readonly<Record<keyof Terms, number>>>(terms: Terms): number {
  return Object.values<number>(terms).reduce((sum, value) => sum + value, 0);
}

import {
  type ActivationShape,
  layerActivationBytes,
  logitBytes,
  type Recompute,
} from '../model/activations.ts';
import { activeWeights, attentionFlops, expertWeights } from '../model/flops.ts';
import type { ModelDescription } from '../model/model-description.ts';
import { precisions } from '../model/states.ts';
import type { TransformerDescription } from '../model/transformer.ts';
import { expertLoad } from './expert-load.ts';
import { recomputeOf, type RunLayout, type Workload } from './run-layout.ts';

/**
 * What a rank has of one layer, and what a microbatch costs there. A layer is the smallest part that a stage of a
 * pipeline has.
 */
export interface Block {
  /** The elements of parameters that all ranks of data parallelism have. */
  readonly parameters: number;
  /** The elements of experts, which ranks of expert parallelism divide. */
  readonly expertParameters: number;
  /** The tensors of its parameters, if ranks that divide them send each by itself. */
  readonly sentTensors: number;
  /** The elements and the tensors of those parameters that ZeRO-3 gathers again for the backward pass. */
  readonly regatheredParameters: number;
  readonly regatheredTensors: number;
  /** The floating-point operations of the forward pass. */
  readonly forwardFlops: number;
  /** Those of the forward pass that the backward pass computes again. */
  readonly recomputedFlops: number;
  /** The bytes that are read and written for what is computed again, besides products. */
  readonly recomputedBytes: number;
  /** The bytes that are kept for the backward pass. */
  readonly activationBytes: number;
  /** The bytes that are in the memory of the host between the forward and the backward pass. */
  readonly offloadedBytes: number;
  /** The bytes that exist while the backward pass of this layer runs, besides those that are kept. */
  readonly liveBytes: number;
  /** The bytes that a forward pass and a backward pass read and write for all that is not a product. */
  readonly movedBytes: number;
  /** The kernels that a forward and a backward pass call. */
  readonly calls: number;
  /** The bytes of the result, which goes to the next layer. */
  readonly outputBytes: number;
  /** The bytes of all all-reduces of tensor parallelism in a forward and a backward pass. */
  readonly tensorBytes: number;
  readonly tensorReductions: number;
  /** The bytes of keys and values that pass from rank to rank in the forward pass. */
  readonly contextBytes: number;
  /** The bytes that the rank of the busiest experts gets in the forward pass, and sends back. */
  readonly expertBytes: number;
}

/** A block without anything. */
const none: Block = {
  parameters: 0,
  expertParameters: 0,
  sentTensors: 0,
  regatheredParameters: 0,
  regatheredTensors: 0,
  forwardFlops: 0,
  recomputedFlops: 0,
  recomputedBytes: 0,
  activationBytes: 0,
  offloadedBytes: 0,
  liveBytes: 0,
  movedBytes: 0,
  calls: 0,
  outputBytes: 0,
  tensorBytes: 0,
  tensorReductions: 0,
  contextBytes: 0,
  expertBytes: 0,
};

/** The layers of a model, and what stands before and after them on the first and the last stage. */
export interface ModelBlocks {
  readonly layers: readonly Block[];
  readonly first: Block;
  readonly last: Block;
  /** Elements that the first and the last stage both have, if they are different ranks. */
  readonly tiedParameters: number;
}

/** The shape of activations on one rank. */
function activationShape(
  layout: RunLayout,
  { sequence }: Workload,
  recompute: Recompute = 'none',
): ActivationShape {
  const { rows, tensorParallel, sequenceParallel, contextParallel } = layout;
  return {
    rows,
    sequence,
    tensorParallel,
    sequenceParallel,
    contextParallel,
    recompute,
    flashAttention: layout.flashAttention,
    elementBytes: precisions[layout.precision].parameter,
  };
}

/** Divides a model into blocks. */
export function blocksOf(
  model: ModelDescription,
  layout: RunLayout,
  workload: Workload,
): ModelBlocks {
  if (model.kind === 'transformer') return transformerBlocks(model, layout, workload);
  const scale = layout.rows / model.rows;
  const layers = model.modules.map((module, index): Block => {
    const forwardFlops = (scale * module.flops) / 3;
    const kept = scale * module.activationBytes;
    const recompute = recomputeOf(layout, index);
    const isFull = recompute === 'full';
    const isOffloaded = recompute === 'offload';
    const { parameters, parameterTensors: sentTensors = 1 } = module;
    const regathered = isFull ? module.regatheredUnderCheckpoint : module.regathered;
    return {
      ...none,
      parameters,
      sentTensors,
      regatheredParameters: regathered?.elements ?? parameters,
      regatheredTensors: regathered?.tensors ?? sentTensors,
      forwardFlops,
      recomputedFlops: isFull ? scale * (module.recomputedFlops ?? module.flops / 3) : 0,
      recomputedBytes: isFull ? MOVES_OF_FORWARD * kept : 0,
      activationBytes: isFull ? scale * module.outputBytes : isOffloaded ? 0 : kept,
      offloadedBytes: isOffloaded ? kept : 0,
      liveBytes: isFull ? kept : isOffloaded ? OFFLOADED_AT_ONCE * kept : 0,
      movedBytes: MOVES * kept,
      calls: module.calls ?? CALLS_OF_LAYER,
      outputBytes: scale * module.outputBytes,
    };
  });
  const first = { ...none, activationBytes: scale * (model.inputBytes ?? 0) };
  return { layers, first, last: none, tiedParameters: 0 };
}

/** How often a value that is kept is read or written in a forward and a backward pass, and in a forward pass. */
const MOVES = 4;
const MOVES_OF_FORWARD = 2;
/** Layers whose offloaded activations are on the device: that of which gradients are computed, and the one before it, which arrives. */
const OFFLOADED_AT_ONCE = 2;
/** The kernels of a layer of a transformer in a forward and a backward pass. */
const CALLS_OF_LAYER = 150;

function transformerBlocks(
  model: TransformerDescription,
  layout: RunLayout,
  workload: Workload,
): ModelBlocks {
  const { tensorParallel: tp } = layout;
  const { vocabulary, hidden, parameters } = model;
  const shape = activationShape(layout, workload);
  const made = new Map<Recompute, Block>();
  const layers = Array.from({ length: model.layers }, (_, index) => {
    const recompute = recomputeOf(layout, index);
    const layer = made.get(recompute) ?? transformerLayer(model, layout, workload, recompute);
    made.set(recompute, layer);
    return layer;
  });
  const tokens = (layout.rows * workload.sequence) / layout.contextParallel;
  const logits = logitBytes(model, shape);
  return {
    layers,
    first: { ...none, parameters: parameters.embedding / tp },
    last: {
      ...none,
      parameters: (parameters.head + parameters.finalNorm) / tp,
      forwardFlops: (2 * vocabulary * hidden * tokens) / tp,
      liveBytes: logits,
      movedBytes: 2 * logits,
    },
    tiedParameters: parameters.head === 0 ? (vocabulary * hidden) / tp : 0,
  };
}

function transformerLayer(
  model: TransformerDescription,
  layout: RunLayout,
  workload: Workload,
  recompute: Recompute,
): Block {
  const { tensorParallel: tp, contextParallel: cp, expertParallel: ep, rows } = layout;
  const shape = activationShape(layout, workload, recompute);
  const tokens = (rows * workload.sequence) / cp;
  const { hidden, headSize, keyValueHeads, parameters, experts } = model;
  const load = experts === null ? 1 : expertLoad(experts, ep);
  const scores = (attentionFlops(model, workload.sequence) * tokens) / tp;
  const busiest = activeWeights(model) + (load - 1) * expertWeights(model);
  const forwardFlops = (2 * busiest * tokens) / tp + scores;
  // Attention by blocks computes its scores again in any case.
  const selective = layout.flashAttention ? 0 : scores;
  const kept = layerActivationBytes(model, shape);
  const whole = layerActivationBytes(model, { ...shape, recompute: 'none' });
  const ofHidden = tokens * hidden * shape.elementBytes;
  const isFull = recompute === 'full';
  const isOffloaded = recompute === 'offload';
  // Two in the forward pass, two in the backward pass, and those of a forward pass that is computed again.
  const reductions = tp === 1 ? 0 : isFull ? 6 : 4;
  const isDivided = ep > 1 && experts !== null;
  return {
    parameters: parameters.layer / tp,
    expertParameters: parameters.experts / (tp * ep),
    // Implementations join the tensors of a transformer in few messages, of which the latency is nothing beside their bytes.
    sentTensors: 0,
    regatheredParameters: (parameters.layer + parameters.experts / ep) / tp,
    regatheredTensors: 0,
    forwardFlops,
    recomputedFlops: { none: 0, selective, full: forwardFlops, offload: 0 }[recompute],
    recomputedBytes: isFull ? MOVES_OF_FORWARD * whole : 0,
    activationBytes: kept,
    offloadedBytes: isOffloaded ? whole : 0,
    liveBytes: isOffloaded ? OFFLOADED_AT_ONCE * whole : whole - kept,
    movedBytes: MOVES * whole,
    calls: CALLS_OF_LAYER,
    outputBytes: ofHidden / (layout.sequenceParallel ? tp : 1),
    tensorBytes: reductions * ofHidden,
    tensorReductions: reductions,
    contextBytes: ((cp - 1) * 2 * tokens * keyValueHeads * headSize * shape.elementBytes) / tp,
    expertBytes: isDivided ? (2 * load * ofHidden * experts.active * (ep - 1)) / (ep * tp) : 0,
  };
}

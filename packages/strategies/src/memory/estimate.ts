import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';

/** A cluster, in the terms of DeepSpeed's estimators. */
export interface Cluster {
  readonly nodes: number;
  readonly ranksPerNode: number;
}

const clusterRules: OptionRules<Cluster> = {
  nodes: option.required(option.integer(1)),
  ranksPerNode: option.required(option.integer(1)),
};

/** The memory that the states of a model take in 16 bits with Adam. */
export interface StatesEstimate {
  /** Bytes on each rank's device. */
  readonly deviceBytes: number;
  /** Bytes on each node's host. */
  readonly hostBytes: number;
}

/** The factor on the bytes kept on the host, which makes room for buffers. */
const HOST_BUFFER_FACTOR = 1.5;

/** Options of `estimateZero2`. */
export interface Zero2EstimateOptions extends Cluster {
  /** The number of elements of the model's parameters. */
  readonly elements: number;
  /** Whether optimizer states and gradients are kept on the host. */
  readonly offload: boolean;
}

const zero2Rules: OptionRules<Zero2EstimateOptions> = {
  ...clusterRules,
  elements: option.required(option.integer(1)),
  offload: option.required(option.flag),
};

/**
 * DeepSpeed's estimate_zero2_model_states_mem_needs, as its code computes it: 2Ψ + 18Ψ/N on a device. (Its
 * documentation prints the numbers of an earlier formula, 4Ψ + 16Ψ/N.)
 */
export function estimateZero2(options: Zero2EstimateOptions): StatesEstimate {
  checkOptions('estimateZero2', options, zero2Rules);
  const { elements, nodes, ranksPerNode, offload } = options;
  const ranks = nodes * ranksPerNode;
  if (offload) {
    return {
      deviceBytes: 2 * elements,
      hostBytes: elements * Math.max(4 * ranks, 16) * HOST_BUFFER_FACTOR,
    };
  }
  return {
    deviceBytes: 2 * elements + Math.trunc((18 * elements) / ranks),
    hostBytes: elements * 4 * ranksPerNode * HOST_BUFFER_FACTOR,
  };
}

/** Options of `estimateZero3`. */
export interface Zero3EstimateOptions extends Cluster {
  /** The number of elements of the model's parameters. */
  readonly elements: number;
  /** The number of elements of the largest layer, which is whole while it runs. */
  readonly largestLayerElements: number;
  /** The states that are kept on the host. */
  readonly offload: 'nothing' | 'optimizer' | 'optimizer and parameters';
  /** Whether the model is built in parts (DeepSpeed's zero.Init) and not whole on each rank. Default: true. */
  readonly constructSharded?: boolean;
}

const zero3Rules: OptionRules<Zero3EstimateOptions> = {
  ...clusterRules,
  elements: option.required(option.integer(1)),
  largestLayerElements: option.required(option.integer(1)),
  offload: option.required(option.oneOf('nothing', 'optimizer', 'optimizer and parameters')),
  constructSharded: option.flag,
};

/** DeepSpeed's estimate_zero3_model_states_mem_needs. */
export function estimateZero3(options: Zero3EstimateOptions): StatesEstimate {
  checkOptions('estimateZero3', options, zero3Rules);
  const { elements, largestLayerElements, nodes, ranksPerNode, offload } = options;
  const ranks = nodes * ranksPerNode;
  // The bytes per element: a node's share of the states on its host, and the whole models that its ranks build.
  const kept = { nothing: 0, optimizer: 16, 'optimizer and parameters': 18 }[offload] / nodes;
  const built = 4 * ranksPerNode;
  const { constructSharded = true } = options;
  const whileBuilt = constructSharded
    ? offload === 'nothing'
      ? largestLayerElements * built
      : elements * kept
    : elements * Math.max(built, kept);
  const onDevice = { nothing: 18, optimizer: 2, 'optimizer and parameters': 0 }[offload];
  return {
    deviceBytes: 4 * largestLayerElements + Math.trunc((onDevice * elements) / ranks),
    hostBytes: whileBuilt * HOST_BUFFER_FACTOR,
  };
}

import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { type Cluster, clusterRules, HOST_BUFFER_FACTOR, type StatesEstimate } from './estimate.ts';

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

const estimateRules: OptionRules<Zero3EstimateOptions> = {
  ...clusterRules,
  elements: option.required(option.integer(1)),
  largestLayerElements: option.required(option.integer(1)),
  offload: option.required(option.oneOf('nothing', 'optimizer', 'optimizer and parameters')),
  constructSharded: option.flag,
};

/** DeepSpeed's estimate_zero3_model_states_mem_needs. */
export function estimateZero3(options: Zero3EstimateOptions): StatesEstimate {
  checkOptions('estimateZero3', options, estimateRules);
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

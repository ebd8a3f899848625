import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { type Cluster, clusterRules, HOST_BUFFER_FACTOR, type StatesEstimate } from './estimate.ts';

/** Options of `estimateZero2`. */
export interface Zero2EstimateOptions extends Cluster {
  /** The number of elements of the model's parameters. */
  readonly elements: number;
  /** Whether optimizer states and gradients are kept on the host. */
  readonly offload: boolean;
}

const estimateRules: OptionRules<Zero2EstimateOptions> = {
  ...clusterRules,
  elements: option.required(option.integer(1)),
  offload: option.required(option.flag),
};

/**
 * DeepSpeed's estimate_zero2_model_states_mem_needs, as its code computes it: 2Ψ + 18Ψ/N on a device. (Its
 * documentation prints the numbers of an earlier formula, 4Ψ + 16Ψ/N.)
 */
export function estimateZero2(options: Zero2EstimateOptions): StatesEstimate {
  checkOptions('estimateZero2', options, estimateRules);
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

import { option, type OptionRules } from '@shardwise/core/extend';

/** A cluster, in the terms of DeepSpeed's estimators. */
export interface Cluster {
  readonly nodes: number;
  readonly ranksPerNode: number;
}

export const clusterRules: OptionRules<Cluster> = {
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
export const HOST_BUFFER_FACTOR = 1.5;

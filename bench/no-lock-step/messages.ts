import type { dist } from 'shardwise';

/** How the ranks of a training agree. */
export interface Contestant {
  readonly name: string;
  /** Null: data parallelism, whose ranks agree in each step. */
  readonly diloco: dist.DiLoCoOptions | null;
}

/** What all ranks are told. */
export interface Job {
  readonly contestants: readonly Contestant[];
  readonly seeds: readonly number[];
  readonly steps: number;
  readonly model: {
    readonly vocabularySize: number;
    readonly contextLength: number;
    readonly layers: number;
    readonly heads: number;
    readonly channels: number;
  };
  /** The sequences of a rank in a step. */
  readonly batchSize: number;
  readonly learningRate: number;
  readonly text: { readonly train: Uint8Array; readonly validation: Uint8Array };
  readonly link: { readonly bitsPerSecond: number; readonly latencySeconds: number };
  /** The seconds on the clock of the links that a rank computes in a step. */
  readonly stepSeconds: number;
}

/** What a rank has after a training. */
export interface Outcome {
  readonly contestant: string;
  readonly seed: number;
  /** The mean training loss of this rank in successive tenths of the steps. */
  readonly training: readonly number[];
  /** Null on all ranks but the first. */
  readonly validation: number | null;
  /** The bytes that this rank has sent in the steps. */
  readonly sentBytes: number;
  /** The time on the clock of the links for all steps. */
  readonly seconds: number;
}

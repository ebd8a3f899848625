import type { dist } from 'shardwise';

/** How the ranks of a training agree. */
export interface Contestant {
  readonly name: string;
  /** Null: data parallelism, whose ranks agree in each step. */
  readonly diloco: (Pick<dist.DiLoCoOptions, 'bits' | 'outer'> & { readonly every: number }) | null;
  /**
   * The probability that a rank is away in a round, from 0 to 1. All of them train as many tokens together as without
   * departures, or a round less. Absent: the ranks are the same all the time.
   */
  readonly away?: number;
}

/** The trainings that are compared. */
export interface Job {
  readonly contestants: readonly Contestant[];
  readonly seeds: readonly number[];
  /** The updates of a rank that is always there. */
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
  /** The mean training loss of this rank in successive tenths of its updates. */
  readonly training: readonly number[];
  /** The number of its updates. */
  readonly updates: number;
  readonly validation: number;
  /** The bytes that this rank has sent in the steps. */
  readonly sentBytes: number;
  /** The time on the clock of the links for all steps. */
  readonly seconds: number;
}

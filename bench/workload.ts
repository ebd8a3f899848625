import { fromData, type Tensor } from '@shardwise/core';

/** The sizes of the model and of one rank's batch. */
export interface Workload {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly context: number;
  readonly batch: number;
  readonly vocabulary: number;
  readonly learningRate: number;
  readonly weightDecay: number;
  readonly seed: number;
}

/** The workload of the benchmarks. bench/peers/gpt_model.py has the same numbers. */
export const workload = {
  layers: 4,
  width: 256,
  heads: 4,
  context: 128,
  batch: 8,
  vocabulary: 256,
  learningRate: 1e-3,
  weightDecay: 0.01,
  seed: 0,
} as const satisfies Workload;

/** The same workload with 25 million parameters. */
export const largeWorkload = { ...workload, layers: 8, width: 512, heads: 8 } as const;

/** The number of tokens of one rank in a step. */
export const tokensPerStep: number = workload.batch * workload.context;

export interface Batch {
  readonly inputs: Tensor;
  readonly targets: Tensor;
}

/**
 * Makes the batch of a step. Its rows walk over the vocabulary with a stride that depends on the row, so that a model
 * can learn them. Shape: inputs and targets i32 [batch, context].
 */
export function batchOf(step: number, rank = 0, batch: number = workload.batch): Batch {
  const { context, vocabulary } = workload;
  const token = (row: number, column: number): number =>
    (row * 31 + step * 17 + column * (3 + (row % 5))) % vocabulary;
  const ids = (offset: number): Tensor => {
    const values = new Int32Array(batch * context);
    for (let index = 0; index < values.length; index++) {
      values[index] = token(Math.floor(index / context) + batch * rank, (index % context) + offset);
    }
    return fromData(values, [batch, context], 'i32');
  };
  return { inputs: ids(0), targets: ids(1) };
}

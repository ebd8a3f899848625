import { fromData, manualSeed, type Tensor } from 'shardwise';
import { GPT } from '../../examples/gpt/model.ts';

/** A GPT of 25.6 million parameters. The batch is that of all ranks together. */
export const workload = {
  layers: 8,
  channels: 512,
  heads: 8,
  context: 128,
  batch: 4,
  /** The batch for measuring memory. No activation fits the memory of a gradient, in which it would not be counted. */
  memoryBatch: 64,
  vocabulary: 256,
} as const;

export const tokensPerStep: number = workload.batch * workload.context;

export function buildModel(layers: number): GPT {
  manualSeed(0);
  return new GPT({
    vocabularySize: workload.vocabulary,
    contextLength: workload.context,
    layers,
    heads: workload.heads,
    channels: workload.channels,
  });
}

/** Makes the batch of a step. Shape: ids and targets i32 [batch, context]. */
export function batchOf(step: number, batch: number): { ids: Tensor; targets: Tensor } {
  const { context, vocabulary } = workload;
  const at = (shift: number): Tensor =>
    fromData(
      Int32Array.from({ length: batch * context }, (_, index) => {
        const [row, column] = [Math.floor(index / context), (index % context) + shift];
        return (row * 31 + step * 17 + column * (3 + (row % 5))) % vocabulary;
      }),
      [batch, context],
      'i32',
    );
  return { ids: at(0), targets: at(1) };
}

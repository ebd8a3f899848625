import { data } from 'shardwise';

/** The order of the batches, and the rank that reads them. */
export interface TextBatchesOptions {
  /** The number of tokens of a sample. */
  readonly contextLength: number;
  /** The number of samples that a rank gets at once. */
  readonly batchSize: number;
  readonly seed: number;
  readonly rank: number;
  readonly size: number;
}

/** The batches of a rank, whose tokens are the bytes of the text, in an order that the seed decides. A last batch with fewer samples is left out. */
export function textBatches(
  text: Uint8Array,
  { contextLength, batchSize, seed, rank, size }: TextBatchesOptions,
): data.DataLoader<data.TextSample> {
  const dataset = new data.TextDataset(text, { contextLength });
  const sampler = new data.DistributedSampler({ dataset, numReplicas: size, rank, seed });
  return new data.DataLoader<data.TextSample>({ dataset, batchSize, sampler, dropLast: true });
}

import { MeanMetric } from '@shardwise/data';
import { tensor } from 'shardwise';

/** The mean of the numbers of all ranks. It is a collective. */
export async function meanOfRanks(numbers: readonly number[]): Promise<number> {
  const metric = new MeanMetric({});
  await metric.update(tensor(numbers));
  return metric.compute();
}

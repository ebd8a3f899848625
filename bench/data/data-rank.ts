import { readFileSync } from 'node:fs';
import { TokenDataset } from '@shardwise/data';
import { WorkerStream } from '@shardwise/data/node';
import { data, dist, fromData, nn, optim, type Tensor } from 'shardwise';
import { joinBenchWorld, serveRounds, type Trains } from '../serve-rounds.ts';
import { buildModel } from '../training.ts';
import { workload } from '../workload.ts';
import { benchTokenizer } from './token-stream.ts';

// This thread is one rank of the data benchmark: `together` trains on a stream that tokenizes, and `alone` on tokens that
// were prepared before.

type Batch = Readonly<Record<string, data.NDArray>>;

const { rank, group, contestant: path } = await joinBenchWorld();
const tokenizer = benchTokenizer();
const { batch } = workload;
// A row has one token more than the model reads: the last one is only a target.
const contextLength = workload.context + 1;

/** Goes on with the next epoch after each. */
async function* endless(epochs: AsyncIterable<Batch>): AsyncGenerator<Batch, never> {
  for (;;) yield* epochs;
}

function streamed(): AsyncGenerator<Batch> {
  const module = new URL('./token-stream.ts', import.meta.url);
  const args = [path, { batch, contextLength }];
  const share = { rank, numReplicas: group.size };
  const made = { module, export: 'tokenBatches', arguments: args, ...share };
  return endless(new WorkerStream<Batch>(made));
}

function prepared(): AsyncGenerator<Batch> {
  const text = readFileSync(path, 'utf8');
  const ids = text.split('\n').flatMap((line) => tokenizer.encode(line).inputIds);
  const dataset = new TokenDataset(ids, { contextLength });
  const sampler = new data.DistributedSampler({ dataset, numReplicas: group.size, rank });
  return endless(new data.DataLoader({ dataset, sampler, batchSize: batch, dropLast: true }));
}

/** A model that trains on the batches. It continues from round to round. */
async function trainingOf(batches: AsyncGenerator<Batch>): Promise<Trains> {
  const model = buildModel({ ...workload, vocabulary: tokenizer.vocabularySize });
  const parallel = await dist.parallelize(model, dist.ddp());
  const optimizer = new optim.AdamW(parallel.module.parameters(), { lr: workload.learningRate });
  const step = async (): Promise<{ readonly loss: number }> => {
    const { value } = await batches.next();
    const ids = value?.['inputIds'];
    if (ids?.dtype !== 'i32') throw new TypeError('no tokens');
    const { inputs, targets } = shifted(ids.data);
    optimizer.zeroGrad();
    const loss = nn.functional.crossEntropy(parallel.forward(inputs), targets);
    loss.backward();
    await optimizer.step();
    return { loss: await loss.item() };
  };
  return {
    run: async (steps) => {
      const losses: { readonly loss: number }[] = [];
      for (let i = 0; i < steps; i++) losses.push(await step());
      return losses;
    },
  };
}

/** Shape: ids [B, T + 1] -> inputs, targets [B, T]. */
function shifted(ids: Int32Array): { readonly inputs: Tensor; readonly targets: Tensor } {
  const { context } = workload;
  const part = (offset: number): Tensor => {
    const values = new Int32Array(batch * context);
    for (let row = 0; row < batch; row++) {
      const start = row * contextLength + offset;
      values.set(ids.subarray(start, start + context), row * context);
    }
    return fromData(values, [batch, context], 'i32');
  };
  return { inputs: part(0), targets: part(1) };
}

serveRounds(group, {
  together: await trainingOf(streamed()),
  alone: await trainingOf(prepared()),
});

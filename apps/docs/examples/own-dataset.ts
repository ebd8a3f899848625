import { data, manualSeed } from 'shardwise';

// A dataset is an object with a length and a function that returns the item at an index.
const dataset = {
  length: 6,
  get: (index: number) => ({
    x: data.ndArray(Float32Array.of(index, index * index), [2]),
    label: data.ndArray(Int32Array.of(index % 2), []),
  }),
};

manualSeed(0);
const sampler = new data.DistributedSampler({ dataset, numReplicas: 2, rank: 0, seed: 0 });
const loader = new data.DataLoader({ dataset, batchSize: 3, sampler });
for (const epoch of [0, 1]) {
  sampler.setEpoch(epoch); // another order in each epoch
  for await (const { x, label } of loader) console.log(epoch, x.shape, label.shape);
}
// prints 0 [ 3, 2 ] [ 3 ]
// prints 1 [ 3, 2 ] [ 3 ]

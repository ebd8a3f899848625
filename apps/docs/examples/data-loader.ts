import { data } from 'shardwise';

const dataset = new data.ArrayDataset({
  x: data.ndArray(
    Float32Array.from({ length: 20 }, (_, i) => i),
    [10, 2],
  ),
});
for (const rank of [0, 1]) {
  const sampler = new data.DistributedSampler({ dataset, numReplicas: 2, rank, shuffle: false });
  const loader = new data.DataLoader({ dataset, batchSize: 4, sampler });
  for await (const { x } of loader) console.log(rank, x.shape);
}
// prints 0 [ 4, 2 ]
// prints 0 [ 1, 2 ]
// prints 1 [ 4, 2 ]
// prints 1 [ 1, 2 ]

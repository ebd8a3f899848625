import { data, fromData, manualSeed, nn, noGrad, type Tensor, zeros } from '@shardwise/core';
import type { ProcessGroup } from '@shardwise/core/spec';
import { fsdp, gatherForMetrics, parallelize } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';

/** The data that ranks evaluate: item i is i + 0.5 and the pair (i, -i). */
class Items {
  readonly length: number;

  constructor(length: number) {
    this.length = length;
  }

  get(index: number): data.NDArray {
    return data.ndArray(Float32Array.of(index + 0.5));
  }
}

interface Rank {
  readonly rank: number;
  readonly size: number;
}

const samplerOf = (
  { rank, size }: Rank,
  dataset: number,
  options: Partial<data.DistributedSamplerOptions> = {},
): data.DistributedSampler =>
  new data.DistributedSampler({ dataset, numReplicas: size, rank, shuffle: false, ...options });

/** Gathers what a loader gives in two epochs, and expects the dataset in its order. */
async function expectDataset(
  place: Rank,
  items: number,
  batchSize: number,
  options: Partial<data.DistributedSamplerOptions>,
): Promise<void> {
  const sampler = samplerOf(place, items, options);
  const loader = new data.DataLoader({ dataset: new Items(items), batchSize, sampler });
  for (const epoch of [0, 1]) {
    const [halves, pairs]: [Tensor[], Tensor[]] = [[], []];
    // A loader refuses an empty dataset.
    if (items > 0) {
      for await (const batch of loader) {
        const values = Array.from(batch.data, Number);
        halves.push(fromData(Float32Array.from(values), [values.length], 'f32'));
        const both = values.flatMap((value) => [value - 0.5, 0.5 - value]);
        pairs.push(fromData(Int32Array.from(both), [values.length, 2], 'i32'));
      }
    }
    const found = await gatherForMetrics({ pairs, halves }, { sampler });
    const about = JSON.stringify({ ...options, items, batchSize, epoch });
    const indices = Array.from({ length: items }, (_, index) => index);
    expect(await valuesOf(found.pairs), about).toEqual(indices.flatMap((i) => [i, 0 - i]));
    expect(await valuesOf(found.halves), about).toEqual(indices.map((i) => i + 0.5));
    expect(found.halves.shape, about).toEqual([items]);
    if (items === 0) continue;
    expect(found.pairs, about).toMatchObject({ shape: [items, 2], dtype: 'i32' });
  }
}

const rows = (count: number, columns = 1): Tensor => zeros([count, columns]);

const gathers = "to gather values for metrics over 'dp'";
const mismatch = (what: string): ((rank: number) => string) => {
  return () => `CollectiveMismatchError: ${what}`;
};

type Fault = readonly [
  why: string,
  /** What this rank throws. */
  says: (rank: number) => string,
  call: (place: Rank, group: ProcessGroup) => Promise<unknown>,
];

/** Calls that fail on each rank of two. */
const faults: readonly Fault[] = [
  [
    'gives a batch too few',
    (rank) =>
      rank === 0
        ? `CollectiveError: ${gathers}: rank 1 could not give its values: "to gather x of the 3 items that the sampler has for this rank: 2 rows`
        : 'ShapeError: to gather x of the 3 items that the sampler has for this rank: 2 rows. Gather once after the last batch',
    (place) =>
      gatherForMetrics({ x: [rows(place.rank === 1 ? 2 : 3)] }, { sampler: samplerOf(place, 6) }),
  ],
  [
    'gives something else',
    (rank) =>
      rank === 0
        ? `CollectiveError: ${gathers}: rank 1 could not give its values`
        : 'ConfigError: to gather x for metrics: a Tensor where a list of tensors is expected',
    (place) => {
      const list: unknown = place.rank === 0 ? [rows(3)] : rows(3);
      return gatherForMetrics({ x: list as Tensor[] }, { sampler: samplerOf(place, 6) });
    },
  ],
  [
    'has other columns',
    mismatch(`${gathers}: rank 1 has {"names":["x"]`),
    (place) => gatherForMetrics({ x: [rows(3, 1 + place.rank)] }, { sampler: samplerOf(place, 6) }),
  ],
  [
    'has another name',
    mismatch(`${gathers}: rank 1 has {"names":["x1"]`),
    (place) =>
      gatherForMetrics({ [`x${place.rank}`]: [rows(3)] }, { sampler: samplerOf(place, 6) }),
  ],
  [
    'is in another epoch',
    mismatch(`${gathers}: rank 1 has {"names":["x"],"epoch":1`),
    (place) => {
      const sampler = samplerOf(place, 6, { shuffle: true });
      sampler.setEpoch(place.rank);
      return gatherForMetrics({ x: [rows(3)] }, { sampler });
    },
  ],
  [
    'has another order',
    mismatch(`${gathers}: rank 1 has {"names":["x"]`),
    (place) =>
      gatherForMetrics({ x: [rows(3)] }, { sampler: samplerOf(place, 6, { seed: place.rank }) }),
  ],
  [
    'has a sampler that leaves items out, as all have',
    () =>
      'ConfigError: to gather values of 7 items for metrics: a sampler with dropLast, whose 2 ranks have 3 items',
    (place) =>
      gatherForMetrics({ x: [rows(3)] }, { sampler: samplerOf(place, 7, { dropLast: true }) }),
  ],
  [
    'has the sampler of a rank of another group, as all have',
    (rank) =>
      `ConfigError: to gather values for metrics by the sampler of rank ${rank} of 3: rank ${rank} of 2`,
    ({ rank }) => gatherForMetrics({ x: [rows(2)] }, { sampler: samplerOf({ rank, size: 3 }, 6) }),
  ],
  [
    'calls another collective',
    mismatch('Call #'),
    async (place, group) => {
      if (place.rank === 1) {
        return gatherForMetrics({ x: [rows(3)] }, { sampler: samplerOf(place, 6) });
      }
      const bytes = new Uint8Array(8);
      return group.allReduce({ bytes, dtype: 'f32' }, 'sum');
    },
  ],
];

describe.each([1, 2, 3, 4])('gatherForMetrics on %d ranks', (size) => {
  it('gives exactly the dataset in its order, with repeats, without, and on ranks without a batch', async () => {
    await onRanks(size, async (place) => {
      for (let items = 0; items <= 20; items++) {
        for (const batchSize of [1, 2, 3, 7]) {
          for (const repeats of [true, false]) {
            for (const shuffle of [true, false]) {
              await expectDataset(place, items, batchSize, { repeats, shuffle });
            }
          }
        }
      }
    });
  });

  it('gives the outputs of a model that ranks shard', async () => {
    await onRanks(size, async (place) => {
      const build = (): nn.Linear => {
        manualSeed(4);
        return new nn.Linear(1, 3);
      };
      const dataset = new Items(7);
      const every = Float32Array.from({ length: 7 }, (_, i) => i + 0.5);
      const alone = await valuesOf(build().forward(fromData(every, [7, 1], 'f32')));
      const model = await parallelize(build(), fsdp());
      const sampler = samplerOf(place, dataset.length, { shuffle: true });
      const outputs: Tensor[] = [];
      for await (const batch of new data.DataLoader({ dataset, batchSize: 2, sampler })) {
        const x = fromData(Float32Array.from(batch.data, Number), [batch.shape[0] ?? 0, 1], 'f32');
        outputs.push(noGrad(() => model.forward(x)));
      }
      const gathered = await valuesOf((await gatherForMetrics({ outputs }, { sampler })).outputs);
      expect(gathered).toHaveLength(21);
      gathered.forEach((value, index) => expect(value).toBeCloseTo(alone[index] ?? NaN, 5));
    });
  });
});

it.each(faults)('gatherForMetrics throws on all ranks where one %s', async (_, says, call) => {
  await onRanks(2, async ({ rank, size, group }) => {
    const failure = await call({ rank, size }, group).then(() => 'no error', String);
    expect(failure).toContain(says(rank));
  });
});

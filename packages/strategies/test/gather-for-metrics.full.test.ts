import { data, fromData, manualSeed, nn, noGrad, type Tensor } from '@shardwise/core';
import type { ProcessGroup } from '@shardwise/core/spec';
import { fsdp, gatherForMetrics, parallelize } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

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

interface Outcomes {
  /** The cases in which the gathered values are not those of the dataset in its order, as text. */
  wrong: string[];
  cases: number;
  /** What each faulty call has thrown on this rank. */
  errors: Record<string, string>;
  /** The outputs of a model whose parameters the ranks shard, and the same computed on one rank. */
  outputs: number[];
  alone: number[];
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

/** Gathers what a loader gives in two epochs, and returns what is not as in the dataset. */
async function check(
  place: Rank,
  items: number,
  batchSize: number,
  options: Partial<data.DistributedSamplerOptions>,
): Promise<string[]> {
  const sampler = samplerOf(place, items, options);
  const loader = new data.DataLoader({ dataset: new Items(items), batchSize, sampler });
  const wrong: string[] = [];
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
    const indices = Array.from({ length: items }, (_, index) => index);
    const expected = [indices.flatMap((i) => [i, 0 - i]), indices.map((i) => i + 0.5)];
    const values = [await found.pairs.data(), await found.halves.data()];
    const isRight =
      JSON.stringify(values.map((each) => Array.from(each, Number))) === JSON.stringify(expected) &&
      found.halves.shape.join() === String(items) &&
      (items === 0 || (found.pairs.shape.join() === `${items},2` && found.pairs.dtype === 'i32'));
    if (!isRight) {
      const settings = JSON.stringify({ ...options, items, batchSize, epoch });
      wrong.push(`${settings}: ${values.map((each) => each.join(' ')).join(' | ')}`);
    }
  }
  return wrong;
}

const rows = (count: number, columns = 1): Tensor =>
  fromData(new Float32Array(count * columns), [count, columns], 'f32');

/** Calls that fail on each rank of two. The name says why. */
const faults: Readonly<Record<string, (place: Rank, group: ProcessGroup) => Promise<unknown>>> = {
  'one rank gives a batch too few': (place) =>
    gatherForMetrics({ x: [rows(place.rank === 1 ? 2 : 3)] }, { sampler: samplerOf(place, 6) }),
  'one rank gives something else': (place) => {
    const list: unknown = place.rank === 0 ? [rows(3)] : rows(3);
    return gatherForMetrics({ x: list as Tensor[] }, { sampler: samplerOf(place, 6) });
  },
  'one rank has other columns': (place) =>
    gatherForMetrics({ x: [rows(3, 1 + place.rank)] }, { sampler: samplerOf(place, 6) }),
  'one rank has another name': (place) =>
    gatherForMetrics({ [`x${place.rank}`]: [rows(3)] }, { sampler: samplerOf(place, 6) }),
  'one rank is in another epoch': (place) => {
    const sampler = samplerOf(place, 6, { shuffle: true });
    sampler.setEpoch(place.rank);
    return gatherForMetrics({ x: [rows(3)] }, { sampler });
  },
  'one rank has another order': (place) =>
    gatherForMetrics({ x: [rows(3)] }, { sampler: samplerOf(place, 6, { seed: place.rank }) }),
  'the sampler leaves items out': (place) =>
    gatherForMetrics({ x: [rows(3)] }, { sampler: samplerOf(place, 7, { dropLast: true }) }),
  'the sampler is that of a rank of another group': ({ rank }) =>
    gatherForMetrics({ x: [rows(2)] }, { sampler: samplerOf({ rank, size: 3 }, 6) }),
  // The last one, because it ends the group.
  'one rank calls another collective': async (place, group) => {
    if (place.rank === 1) {
      return gatherForMetrics({ x: [rows(3)] }, { sampler: samplerOf(place, 6) });
    }
    const bytes = new Uint8Array(8);
    return group.allReduce({ bytes, dtype: 'f32' }, 'sum');
  },
};

async function sharedModel(place: Rank): Promise<Pick<Outcomes, 'outputs' | 'alone'>> {
  const build = (): nn.Linear => {
    manualSeed(4);
    return new nn.Linear(1, 3);
  };
  const dataset = new Items(7);
  const every = fromData(
    Float32Array.from({ length: 7 }, (_, i) => i + 0.5),
    [7, 1],
    'f32',
  );
  const alone = Array.from(await build().forward(every).data(), Number);
  const model = await parallelize(build(), fsdp());
  const sampler = samplerOf(place, dataset.length, { shuffle: true });
  const outputs: Tensor[] = [];
  for await (const batch of new data.DataLoader({ dataset, batchSize: 2, sampler })) {
    const x = fromData(Float32Array.from(batch.data, Number), [batch.shape[0] ?? 0, 1], 'f32');
    outputs.push(noGrad(() => model.forward(x)));
  }
  const gathered = await gatherForMetrics({ outputs }, { sampler });
  return { outputs: Array.from(await gathered.outputs.data(), Number), alone };
}

async function observe({ rank, size, group }: RankInThread): Promise<Outcomes> {
  const wrong: string[] = [];
  let cases = 0;
  for (let items = 0; items <= 20; items++) {
    for (const batchSize of [1, 2, 3, 7]) {
      for (const repeats of [true, false]) {
        for (const shuffle of [true, false]) {
          cases++;
          wrong.push(...(await check({ rank, size }, items, batchSize, { repeats, shuffle })));
        }
      }
    }
  }
  const shared = await sharedModel({ rank, size });
  const errors: Record<string, string> = {};
  for (const [name, call] of Object.entries(size === 2 ? faults : {})) {
    errors[name] = await call({ rank, size }, group).then(
      () => 'no error',
      (error: unknown) => (error instanceof Error ? `${error.name}: ${error.message}` : 'no Error'),
    );
  }
  return { wrong, cases, errors, ...shared };
}

const mismatch = (what: string): readonly string[] => {
  const text = `CollectiveMismatchError: ${what}`;
  return [text, text];
};
const gathers = "to gather values for metrics over 'dp'";

/** What each rank of two throws. */
const thrown: Readonly<Record<string, readonly string[]>> = {
  'one rank gives a batch too few': [
    `CollectiveError: ${gathers}: rank 1 could not give its values: "to gather x of the 3 items that the sampler has for this rank: 2 rows`,
    'ShapeError: to gather x of the 3 items that the sampler has for this rank: 2 rows. Gather once after the last batch',
  ],
  'one rank gives something else': [
    `CollectiveError: ${gathers}: rank 1 could not give its values`,
    'ConfigError: to gather x for metrics: a Tensor where a list of tensors is expected',
  ],
  'one rank has other columns': mismatch(`${gathers}: rank 1 has {"names":["x"]`),
  'one rank has another name': mismatch(`${gathers}: rank 1 has {"names":["x1"]`),
  'one rank is in another epoch': mismatch(`${gathers}: rank 1 has {"names":["x"],"epoch":1`),
  'one rank has another order': mismatch(`${gathers}: rank 1 has {"names":["x"]`),
  'the sampler leaves items out': [0, 1].map(
    () =>
      'ConfigError: to gather values of 7 items for metrics: a sampler with dropLast, whose 2 ranks have 3 items',
  ),
  'the sampler is that of a rank of another group': [0, 1].map(
    (rank) =>
      `ConfigError: to gather values for metrics by the sampler of rank ${rank} of 3: rank ${rank} of 2`,
  ),
  'one rank calls another collective': mismatch('Call #'),
};

describe.each([1, 2, 3, 4])('gatherForMetrics on %d ranks', (size) => {
  let ranks: readonly Outcomes[] = [];

  beforeAll(async () => {
    ranks = await onRanks(size, observe);
  });

  it('gives exactly the dataset in its order, with repeats, without, and on ranks without a batch', () => {
    for (const { wrong, cases } of ranks) {
      expect(wrong).toEqual([]);
      expect(cases).toBe(21 * 4 * 2 * 2);
    }
  });

  it('gives the outputs of a model that ranks shard', () => {
    for (const { outputs, alone } of ranks) {
      expect(outputs).toHaveLength(21);
      outputs.forEach((value, index) => expect(value).toBeCloseTo(alone[index] ?? NaN, 5));
    }
  });

  it.runIf(size === 2)('throws on all ranks where one differs', () => {
    const found = ranks.map(({ errors }) => errors);
    expect(found.map((errors) => Object.keys(errors))).toEqual(
      found.map(() => Object.keys(thrown)),
    );
    for (const [name, texts] of Object.entries(thrown)) {
      texts.forEach((text, rank) => expect(found[rank]?.[name]).toContain(text));
    }
  });
});

import { data, fromData, manualSeed, nn, noGrad, type Tensor } from '@shardwise/core';
import type { ProcessGroup } from '@shardwise/core/spec';
import { fsdp, gatherForMetrics, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

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

export const outcomes = z.object({
  /** The cases in which the gathered values are not those of the dataset in its order, as text. */
  wrong: z.array(z.string()),
  cases: z.number(),
  /** What each faulty call has thrown on this rank. */
  errors: z.record(z.string(), z.string()),
  /** The outputs of a model whose parameters the ranks shard, and the same computed on one rank. */
  outputs: z.array(z.number()),
  alone: z.array(z.number()),
});
export type Outcomes = z.infer<typeof outcomes>;

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

export async function main(context: RankContext): Promise<Outcomes> {
  const { group } = await join(context);
  const { rank, size } = group;
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

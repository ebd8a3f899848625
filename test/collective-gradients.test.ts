import {
  allGather,
  allReduce,
  allToAll,
  broadcast,
  fromData,
  localChunk,
  noGrad,
  type ProcessGroup,
  reduce,
  reduceScatter,
  reinterpret,
  sendRecv,
  type Tensor,
} from '@shardwise/core';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

/**
 * A graph of a collective. `result` says what the loss of a rank is. 'perRank': each rank weights its result
 * differently, and the global loss is the sum of the ranks' losses. 'shared': the result and its weights are the same
 * on every rank, so the global loss counts them once.
 */
interface Case {
  readonly build: (x: Tensor, size: number) => Tensor;
  readonly input: 'varying' | 'replicate' | 'invariant';
  readonly result: 'perRank' | 'shared';
}

/** The rows of the table. Inputs have the shape [4 * size, 2 * size]. */
const cases: Readonly<Record<string, Case>> = {
  'all-reduce to replicate': {
    input: 'varying',
    result: 'perRank',
    build: (x) => allReduce(x, 'dp'),
  },
  'all-reduce mean to replicate': {
    input: 'varying',
    result: 'perRank',
    build: (x) => allReduce(x, 'dp', { reduce: 'avg' }),
  },
  'all-reduce to invariant': {
    input: 'varying',
    result: 'shared',
    build: (x) => allReduce(x, 'dp', { to: 'invariant' }),
  },
  'all-reduce mean to invariant': {
    input: 'varying',
    result: 'shared',
    build: (x) => allReduce(x, 'dp', { reduce: 'avg', to: 'invariant' }),
  },
  'all-gather of dim 0 to replicate': {
    input: 'varying',
    result: 'perRank',
    build: (x) => allGather(x, 'dp', 0),
  },
  'all-gather of dim 1 to replicate': {
    input: 'varying',
    result: 'perRank',
    build: (x) => allGather(x, 'dp', 1),
  },
  'all-gather of dim 1 to invariant': {
    input: 'varying',
    result: 'shared',
    build: (x) => allGather(x, 'dp', 1, 'invariant'),
  },
  'reduce-scatter of dim 0': {
    input: 'varying',
    result: 'perRank',
    build: (x) => reduceScatter(x, 'dp', 0),
  },
  'reduce-scatter of dim 1': {
    input: 'varying',
    result: 'perRank',
    build: (x) => reduceScatter(x, 'dp', 1),
  },
  'reduce-scatter mean': {
    input: 'varying',
    result: 'perRank',
    build: (x) => reduceScatter(x, 'dp', 1, 'avg'),
  },
  'all-to-all from dim 0 to dim 1': {
    input: 'varying',
    result: 'perRank',
    build: (x) => allToAll(x, 'dp', 0, 1),
  },
  'all-to-all from dim 1 to dim 0': {
    input: 'varying',
    result: 'perRank',
    build: (x) => allToAll(x, 'dp', 1, 0),
  },
  'broadcast from the last rank': {
    input: 'varying',
    result: 'perRank',
    build: (x, size) => broadcast(x, 'dp', size - 1),
  },
  'reduce to rank 0': { input: 'varying', result: 'perRank', build: (x) => reduce(x, 'dp', 0) },
  'send to the next rank': {
    input: 'varying',
    result: 'perRank',
    build: (x, size) =>
      sendRecv(
        x,
        'dp',
        Array.from({ length: size }, (_, rank) => (rank + 1) % size),
      ),
  },
  'send to the next rank without wrapping': {
    input: 'varying',
    result: 'perRank',
    build: (x, size) =>
      sendRecv(
        x,
        'dp',
        Array.from({ length: size }, (_, rank) => (rank + 1 < size ? rank + 1 : -1)),
      ),
  },
  'own part of dim 0': {
    input: 'invariant',
    result: 'perRank',
    build: (x) => localChunk(x, 'dp', 0),
  },
  'own part of dim 1, and the whole again': {
    input: 'invariant',
    result: 'shared',
    build: (x) => allGather(localChunk(x, 'dp', 1).sin(), 'dp', 1, 'invariant'),
  },
  "invariant to replicate (Megatron's f)": {
    input: 'invariant',
    result: 'perRank',
    build: (x) => reinterpret(x, 'dp', 'invariant', 'replicate'),
  },
  'f, then g: a column and row parallel pair': {
    input: 'invariant',
    result: 'shared',
    build: (x) =>
      allReduce(reinterpret(x, 'dp', 'invariant', 'replicate').sin(), 'dp', { to: 'invariant' }),
  },
};

/** Returns deterministic values in [-1, 1) that differ for each seed. */
function values(count: number, seed: number): Float32Array {
  let state = (seed * 2_654_435_761 + 12_345) | 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return state / 2 ** 31;
  });
}

interface Outcome {
  readonly name: string;
  readonly analytic: number;
  readonly numeric: number;
}

/**
 * Compares directional derivatives of the global loss for each case: by the gradient table and by central differences.
 */
async function checkAll({ group }: RankInThread): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const [name, spec] of Object.entries(cases)) outcomes.push(await check(name, spec, group));
  return outcomes;
}

async function check(name: string, spec: Case, group: ProcessGroup): Promise<Outcome> {
  const { rank, size } = group;
  const shape = [4 * size, 2 * size];
  const count = 8 * size * size;
  const same = spec.input !== 'varying';
  const base = values(count, same ? 1 : 10 + rank);
  const direction = values(count, same ? 2 : 50 + rank);

  const loss = (x: Tensor): Tensor => {
    const y = spec.build(x, size);
    const weights = fromData(
      values(y.numel, spec.result === 'shared' ? 3 : 100 + rank),
      y.shape,
      'f32',
    );
    return y.add(y.mul(y).mul(0.3)).mul(weights).sum();
  };
  /**
   * Returns the sum of the ranks' losses. If the result is shared, all ranks have the same loss, and it counts once.
   */
  const globalLoss = async (step: number): Promise<number> => {
    const moved = Float32Array.from(base, (value, index) => value + step * (direction[index] ?? 0));
    const mine = await noGrad(() => loss(fromData(moved, shape, 'f32'))).item();
    const total = await sumOverRanks(mine, group);
    return spec.result === 'shared' ? total / size : total;
  };
  const step = 1e-2;
  const numeric = ((await globalLoss(step)) - (await globalLoss(-step))) / (2 * step);

  const x = fromData(base, shape, 'f32').requiresGrad_();
  loss(x).backward();
  if (x.grad === null) throw new TypeError(`${name} gave no gradient`);
  const gradient = await x.grad.data();
  const mine = direction.reduce(
    (sum, value, index) => sum + value * Number(gradient[index] ?? 0),
    0,
  );
  // An invariant input has the whole gradient on every rank. The gradients of other inputs are terms of a sum.
  const total = await sumOverRanks(mine, group);
  return { name, numeric, analytic: spec.input === 'invariant' ? total / size : total };
}

async function sumOverRanks(value: number, group: ProcessGroup): Promise<number> {
  const cell = Float64Array.of(value);
  await group.allReduce({ bytes: new Uint8Array(cell.buffer), dtype: 'f64' }, 'sum');
  return cell[0] ?? Number.NaN;
}

/** Compares every collective in the gradient table with finite differences of the global loss. */
describe.each([1, 2, 3, 4])('the gradients of collectives on %i ranks', (size) => {
  it(`are the derivatives of the global loss (${Object.keys(cases).length} cases)`, async () => {
    const results = await onRanks(size, checkAll);
    expect(results).toHaveLength(size);
    for (const { name, analytic, numeric } of results.flat()) {
      expect(
        Math.abs(analytic - numeric) / Math.max(1, Math.abs(numeric)),
        `${name}: ${analytic} and ${numeric}`,
      ).toBeLessThan(2e-3);
    }
  });
});

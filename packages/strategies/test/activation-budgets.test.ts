import {
  allReduce,
  fromData,
  hostPages,
  manualSeed,
  nn,
  optim,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { ddp, fsdp, parallelize, pipeline } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';

const [rows, width, depth] = [64, 16, 6];

/** A layer that is a checkpoint if it has options. */
class Layer extends nn.Module {
  readonly linear = new nn.Linear(width, width);
  readonly #options: nn.CheckpointOptions | null;

  constructor(options: nn.CheckpointOptions | null) {
    super();
    this.#options = options;
  }

  /** Shape: x [B, width] -> [B, width]. */
  forward(x: Tensor): Tensor {
    const layer = (): Tensor =>
      nn.functional.dropout(this.linear.forward(x).tanh().sin(), 0.2).add(x);
    return this.#options === null ? layer() : nn.checkpoint(layer, this.#options);
  }
}

const squares = (output: Tensor, target: Tensor): Tensor => output.sub(target).square().mean();

interface Run {
  readonly strategy: () => Strategy;
  /** The microbatches of each update, whose backward passes follow their forward passes. */
  readonly microbatches: number;
}

const runs: Readonly<Record<string, Run>> = {
  'DDP with accumulation': { strategy: () => ddp(), microbatches: 2 },
  FSDP: { strategy: () => fsdp({ unitOf: (path) => path.split('.')[0] ?? '' }), microbatches: 1 },
};

/** The values after two steps on each of two ranks, of which each has the budget that this says, and what it chose. */
function train({ strategy, microbatches }: Run, bytesOf: (rank: number) => number | null) {
  const options = { axes: [{ name: 'dp', size: 2 }] };
  return onRanks(
    2,
    async ({ rank }) => {
      manualSeed(3);
      const bytes = bytesOf(rank);
      const choices: nn.RecomputationChoice[] = [];
      const onChoice = (choice: nn.RecomputationChoice): number => choices.push(choice);
      // Rank 0 moves a value sooner than it recomputes it, and rank 1 the other way round.
      const [flopsPerSecond, pageBytesPerSecond] = rank === 0 ? [1e6, 1e12] : [1e12, 1e6];
      const policy =
        bytes && nn.activationMemoryBudget({ bytes, onChoice, flopsPerSecond, pageBytesPerSecond });
      const checkpoint = policy ? { policy, pages: hostPages() } : null;
      const layers = Array.from({ length: depth }, () => new Layer(checkpoint));
      const parallel = await parallelize(new nn.Sequential(...layers), strategy());
      const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0.1 });
      const losses: number[] = [];
      for (let step = 0; step < 2; step++) {
        optimizer.zeroGrad();
        const made = Array.from({ length: microbatches }, (_, microbatch) => {
          const numbers = Float32Array.from({ length: rows * width }, (_value, i) =>
            Math.sin(i + step + microbatch + rank),
          );
          const x = fromData(numbers, [rows, width], 'f32');
          return squares(parallel.forward(x), x);
        });
        for (const [index, loss] of made.entries()) {
          if (index === made.length - 1) loss.backward();
          else parallel.noSync(() => loss.backward());
        }
        await optimizer.step();
        for (const loss of made) losses.push(await loss.item());
      }
      return { losses, choices };
    },
    options,
  );
}

test.each(Object.entries(runs))(
  '%s has the same losses within budgets by which ranks choose differently',
  async (_, run) => {
    const plain = await train(run, () => null);
    const free = await train(run, () => 1e12);
    const none = free.map(({ choices }) =>
      Math.max(...choices.map(({ plannedBytesOfNone }) => plannedBytesOfNone)),
    );
    const within = await train(run, (rank) => Math.round(0.8 * (none[rank] ?? 0)));
    expect(within.map(({ losses }) => losses)).toEqual(plain.map(({ losses }) => losses));
    const [first, second] = within;
    expect(first?.choices.some(({ offloaded }) => offloaded.length > 0)).toBe(true);
    expect(second?.choices.some(({ recomputed }) => recomputed.length > 0)).toBe(true);
  },
);

/** What two ranks have whose checkpoint sends values. Its result is read before the backward pass, as a loss is. */
function readEarly(reads: readonly boolean[], bytes: number | null, pages = false) {
  return onRanks(
    2,
    async ({ rank }) => {
      manualSeed(3);
      const [first, second] = [1, 2].map(() => new nn.Linear(width, width, { bias: false }));
      if (first === undefined || second === undefined) throw new RangeError('no layers');
      const numbers = Float32Array.from({ length: rows * width }, (_, at) => Math.sin(at + rank));
      const x = fromData(numbers, [rows, width], 'f32');
      const plans: number[] = [];
      const onChoice = ({ plannedBytes }: nn.RecomputationChoice): number =>
        plans.push(plannedBytes);
      const speeds = { flopsPerSecond: 1e6, pageBytesPerSecond: 1e12 };
      const policy =
        bytes === null ? null : nn.activationMemoryBudget({ bytes, onChoice, ...speeds });
      const layers = (): Tensor =>
        first
          .forward(x)
          .sin()
          .add(allReduce(second.forward(x), 'dp').tanh().sin());
      const values: number[][] = [];
      for (const isRead of reads) {
        const options = policy && { policy, ...(pages ? { pages: hostPages() } : {}) };
        const y = options === null ? layers() : nn.checkpoint(layers, options);
        if (isRead) values.push([...(await y.data())].map(Number));
        y.square().mean().backward();
        for (const { weight } of [first, second]) {
          values.push([...((await weight.grad?.data()) ?? [])].map(Number));
          weight.zeroGrad();
        }
      }
      return { values, plans };
    },
    { axes: [{ name: 'dp', size: 2 }] },
  );
}

describe('a result that is read before its backward pass', () => {
  const plain = readEarly([true], null);

  test('has the values and gradients of a pass without a budget', async () => {
    const expected = (await plain).map(({ values }) => values);
    const [kept] = await readEarly([true], 1e12);
    expect(kept?.values).toEqual(expected[0]);
    const least = 0.9 * Math.max(...(kept?.plans ?? []));
    for (const pages of [false, true]) {
      const within = await readEarly([true], Math.round(least), pages);
      expect(within.map(({ values }) => values)).toEqual(expected);
    }
  });

  test('is not counted as there in a later pass where it is not read', async () => {
    const [ranks] = await readEarly([true, true, false], 1e12);
    const [first, ...later] = ranks?.plans ?? [];
    expect(later.at(-1)).toBeGreaterThan(first ?? Infinity);
  });
});

test('a budget in a pipeline, whose ranks compute parts of a pass, is an error on each', async () => {
  const attempt = onRanks(
    2,
    async () => {
      const policy = nn.activationMemoryBudget({ bytes: 1e9 });
      const layers = Array.from({ length: 2 }, () => new Layer({ policy }));
      const strategy = pipeline({ cut: ['1'], microbatches: 2, schedule: '1f1b', loss: squares });
      const parallel = await parallelize(new nn.Sequential(...layers), strategy);
      const x = fromData(new Float32Array(rows * width), [rows, width], 'f32');
      const loss = parallel.forward(x, x);
      expect(() => loss.backward()).toThrow(/in a pipeline, budgets cannot choose/);
    },
    { axes: [{ name: 'pp', size: 2 }] },
  );
  await attempt;
});

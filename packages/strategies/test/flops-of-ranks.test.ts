import {
  type FlopConvention,
  flopsProfiler,
  LineMesh,
  manualSeed,
  nn,
  ones,
  optim,
  setRank,
  type Strategy,
  type Tensor,
  type Work,
} from '@shardwise/core';
import {
  colwiseParallel,
  ddp,
  fsdp,
  parallelize,
  pipeline,
  rowwiseParallel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

const strategyNames = ['ddp', 'zero2', 'zero3', 'fsdp', 'tensorParallel', 'pipeline'] as const;
type StrategyName = (typeof strategyNames)[number];

const strategies: Readonly<Record<StrategyName, () => Strategy>> = {
  ddp,
  zero2: () => zero({ stage: 2 }),
  zero3: () => zero({ stage: 3 }),
  fsdp,
  tensorParallel: () => tensorParallel({ '0.up': colwiseParallel(), '0.down': rowwiseParallel() }),
  pipeline: () => pipeline({ microbatches: 2, cut: ['1'], loss }),
};
const axes = {
  ddp: 'dp',
  zero2: 'dp',
  zero3: 'dp',
  fsdp: 'dp',
  tensorParallel: 'tp',
  pipeline: 'pp',
};

function loss(output: Tensor): Tensor {
  return output.square().mean();
}

const rows = 8;

/** The operations of this rank in a training step on 8 rows. */
async function worksOf(name: StrategyName, { group, device }: RankInThread) {
  setRank({ device, mesh: new LineMesh(axes[name], group) });
  const share = axes[name] === 'dp' ? rows / group.size : rows;
  return {
    /** The products of a step. */
    plain: await workOf(name, share, 'pytorch', false),
    /** The products of a step whose block is computed again in the backward pass. */
    recomputed: await workOf(name, share, 'pytorch', true),
    /** The sums and products of elements, too, as DeepSpeed counts them. */
    elements: await workOf(name, share, 'deepspeed', false),
  };
}

async function workOf(
  name: StrategyName,
  rowsOfRank: number,
  convention: FlopConvention,
  recomputes: boolean,
): Promise<Work> {
  manualSeed(1);
  const model = new nn.Sequential(new Block(recomputes), new nn.Linear(6, 4));
  const parallel = await parallelize(model, strategies[name]());
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  const profiler = flopsProfiler(parallel, { convention });
  profiler.startProfile();
  const output = parallel.forward(ones([rowsOfRank, 6]));
  (name === 'pipeline' ? output : loss(output)).backward();
  await optimizer.step();
  return profiler.stopProfile().work;
}

class Block extends nn.Module {
  readonly up = new nn.Linear(6, 10);
  readonly down = new nn.Linear(10, 6);
  readonly #recomputes: boolean;

  constructor(recomputes: boolean) {
    super();
    this.#recomputes = recomputes;
  }

  forward(x: Tensor): Tensor {
    const compute = (): Tensor => this.down.forward(this.up.forward(x).gelu());
    return this.#recomputes ? nn.checkpoint(compute) : compute();
  }
}

type StepCounts = Awaited<ReturnType<typeof worksOf>>;
const size = 2;

/** The products of each layer of the model of the ranks in a forward pass, for all 8 rows. */
const up = 2 * 8 * 6 * 10;
const down = 2 * 8 * 10 * 6;
const head = 2 * 8 * 6 * 4;
const forward = up + down + head;
/** The input of the first layer needs no gradient. */
const backward = up + 2 * (down + head);
/** The elements of the parameters of each layer, with its bias. */
const parameters = { up: 6 * 10 + 10, down: 10 * 6 + 6, head: 6 * 4 + 4 };
const allParameters = parameters.up + parameters.down + parameters.head;

/** What each rank does: products in a forward and a backward pass and in recomputation, and elements that it updates. */
type Expected = readonly [forward: number, backward: number, recomputed: number, updated: number];

/** A rank has half of the rows. Of the parameters, it updates all, or its half. */
const halfOfRows = (updated: number): readonly Expected[] =>
  Array.from({ length: size }, () => [forward / 2, backward / 2, up / 2, updated]);

const expected: Readonly<Record<StrategyName, readonly Expected[]>> = {
  ddp: halfOfRows(allParameters),
  zero2: halfOfRows(allParameters / 2),
  zero3: halfOfRows(allParameters / 2),
  fsdp: halfOfRows(allParameters / 2),
  // A rank has half of the block, but for the bias of the second layer, and the whole head, for all rows.
  tensorParallel: Array.from({ length: size }, () => [
    (up + down) / 2 + head,
    (up + 2 * down) / 2 + 2 * head,
    up / 2,
    parameters.up / 2 + (10 * 6) / 2 + 6 + parameters.head,
  ]),
  // The first stage is the block, and the second one is the head.
  pipeline: [
    [up + down, up + 2 * down, up, parameters.up + parameters.down],
    [head, 2 * head, 0, parameters.head],
  ],
};

describe('the operations that the profilers of two ranks count in a step', () => {
  const works = new Map<StrategyName, readonly StepCounts[]>();

  beforeAll(async () => {
    for (const name of strategyNames)
      works.set(name, await onRanks(size, (rank) => worksOf(name, rank)));
  });

  const each = (name: StrategyName, figure: (found: StepCounts) => number): readonly number[] =>
    (works.get(name) ?? []).map(figure);
  const column = (name: StrategyName, index: number): readonly number[] =>
    expected[name].map((figures) => figures[index] ?? Number.NaN);

  it.each(strategyNames)('are exact in forward and backward passes under %s', (name) => {
    expect(each(name, ({ plain }) => plain.forward.flops)).toEqual(column(name, 0));
    expect(each(name, ({ plain }) => plain.backward.flops)).toEqual(column(name, 1));
    expect(each(name, ({ plain }) => plain.recomputation.flops)).toEqual([0, 0]);
    expect(each(name, ({ plain }) => plain.optimizer.flops)).toEqual([0, 0]);
  });

  it.each(strategyNames)(
    'are exact under %s in what a backward pass computes again, beside the same passes',
    (name) => {
      // The product of the second layer is not needed again.
      expect(each(name, ({ recomputed }) => recomputed.recomputation.flops)).toEqual(
        column(name, 2),
      );
      expect(each(name, ({ recomputed }) => recomputed.forward.flops)).toEqual(column(name, 0));
      expect(each(name, ({ recomputed }) => recomputed.backward.flops)).toEqual(column(name, 1));
    },
  );

  it.each(strategyNames)(
    "are exact under %s in SGD's update, which multiplies each element that the rank has by the rate",
    (name) => {
      expect(each(name, ({ elements }) => elements.optimizer.flops)).toEqual(column(name, 3));
      expect(each(name, ({ elements }) => elements.optimizer.macs)).toEqual([0, 0]);
    },
  );

  it.each(strategyNames)('are the same multiply-adds under %s by either convention', (name) => {
    for (const phase of ['forward', 'backward', 'recomputation'] as const) {
      const plain = each(name, (found) => found.plain[phase].macs);
      expect(each(name, ({ elements }) => elements[phase].macs)).toEqual(plain);
      expect(each(name, (found) => found.plain[phase].flops / 2)).toEqual(plain);
    }
  });

  it.each(['ddp', 'zero2', 'zero3', 'fsdp', 'pipeline'] as const)(
    'add up to those of one rank under %s',
    (name) => {
      const sumOf = (phase: 'forward' | 'backward'): number =>
        each(name, ({ plain }) => plain[phase].flops).reduce((sum, flops) => sum + flops, 0);
      expect(sumOf('forward')).toBe(forward);
      expect(sumOf('backward')).toBe(backward);
    },
  );
});

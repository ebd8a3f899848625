import {
  type FlopConvention,
  flopsProfiler,
  manualSeed,
  nn,
  ones,
  optim,
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
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

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

/** The operations of this rank in a training step on its share of 8 rows. */
async function workOf(
  name: StrategyName,
  {
    convention = 'pytorch',
    recomputes = false,
  }: {
    readonly convention?: FlopConvention;
    readonly recomputes?: boolean;
  } = {},
): Promise<Work> {
  const rowsOfRank = axes[name] === 'dp' ? rows / size : rows;
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
interface Expected {
  readonly forward: number;
  readonly backward: number;
  readonly recomputed: number;
  readonly updated: number;
}

/** A rank has half of the rows. Of the parameters, it updates all, or its half. */
const halfOfRows = (updated: number): readonly Expected[] =>
  Array.from({ length: size }, () => ({
    forward: forward / 2,
    backward: backward / 2,
    recomputed: up / 2,
    updated,
  }));

const expected: Readonly<Record<StrategyName, readonly Expected[]>> = {
  ddp: halfOfRows(allParameters),
  zero2: halfOfRows(allParameters / 2),
  zero3: halfOfRows(allParameters / 2),
  fsdp: halfOfRows(allParameters / 2),
  // A rank has half of the block, but for the bias of the second layer, and the whole head, for all rows.
  tensorParallel: Array.from({ length: size }, () => ({
    forward: (up + down) / 2 + head,
    backward: (up + 2 * down) / 2 + 2 * head,
    recomputed: up / 2,
    updated: parameters.up / 2 + (10 * 6) / 2 + 6 + parameters.head,
  })),
  // The first stage is the block, and the second one is the head.
  pipeline: [
    {
      forward: up + down,
      backward: up + 2 * down,
      recomputed: up,
      updated: parameters.up + parameters.down,
    },
    { forward: head, backward: 2 * head, recomputed: 0, updated: parameters.head },
  ],
};

describe.each(strategyNames)(
  'the operations that the profilers of two ranks count in a step of %s',
  (name) => {
    /** Runs `body` as each of the ranks, with what it has to count. */
    const onEach = async (body: (own: Expected) => Promise<void>): Promise<void> => {
      const mesh = [{ name: axes[name], size }];
      await onRanks(size, ({ rank }) => body(expected[name][rank] ?? expect.fail()), {
        axes: mesh,
      });
    };

    it('are exact in forward and backward passes', () =>
      onEach(async (own) => {
        const work = await workOf(name);
        expect(work.forward.flops).toBe(own.forward);
        expect(work.backward.flops).toBe(own.backward);
        expect(work.recomputation.flops).toBe(0);
        expect(work.optimizer.flops).toBe(0);
      }));

    it('are exact in what a backward pass computes again, beside the same passes', () =>
      onEach(async (own) => {
        const work = await workOf(name, { recomputes: true });
        // The product of the second layer is not needed again.
        expect(work.recomputation.flops).toBe(own.recomputed);
        expect(work.forward.flops).toBe(own.forward);
        expect(work.backward.flops).toBe(own.backward);
      }));

    it("are exact in SGD's update, which multiplies each element that the rank has by the rate, and the same multiply-adds by either convention", () =>
      onEach(async (own) => {
        const [plain, elements] = [
          await workOf(name),
          await workOf(name, { convention: 'deepspeed' }),
        ];
        expect(elements.optimizer.flops).toBe(own.updated);
        expect(elements.optimizer.macs).toBe(0);
        for (const phase of ['forward', 'backward', 'recomputation'] as const) {
          expect(elements[phase].macs).toBe(plain[phase].macs);
          expect(plain[phase].flops / 2).toBe(plain[phase].macs);
        }
      }));
  },
);

it.each(['ddp', 'zero2', 'zero3', 'fsdp', 'pipeline'] as const)(
  'the operations that the profilers of two ranks count add up to those of one rank under %s',
  (name) => {
    const sumOf = (phase: 'forward' | 'backward'): number =>
      expected[name].reduce((sum, own) => sum + own[phase], 0);
    expect(sumOf('forward')).toBe(forward);
    expect(sumOf('backward')).toBe(backward);
  },
);

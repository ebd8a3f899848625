import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { type StrategyName, strategyNames } from './ranks/flops-of-ranks.ts';
import { testMs, trainingMs } from './time-limits.ts';

const counts = z.object({ flops: z.number(), macs: z.number() });
const work = z.object({
  forward: counts,
  backward: counts,
  recomputation: counts,
  optimizer: counts,
});
const works = z.record(
  z.enum(strategyNames),
  z.object({ plain: work, recomputed: work, elements: work }),
);
type StepCounts = z.infer<typeof works>[StrategyName];
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
  let ranks: readonly z.infer<typeof works>[] = [];

  beforeAll(async () => {
    const module = new URL('./ranks/flops-of-ranks.ts', import.meta.url);
    const found = await runRanks(size, module, {
      world: createThreadsWorld({ size }),
      timeoutMs: trainingMs,
    });
    ranks = z.array(works).length(size).parse(found);
  }, testMs);

  const each = (name: StrategyName, figure: (found: StepCounts) => number): readonly number[] =>
    ranks.map((found) => figure(found[name]));
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

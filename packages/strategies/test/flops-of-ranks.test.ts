import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { strategyNames } from './ranks/flops-of-ranks.ts';
import { testMs, trainingMs } from './time-limits.ts';

const phase = z.object({ flops: z.number(), macs: z.number() });
const works = z.record(
  z.string(),
  z.object({ forward: phase, backward: phase, recomputation: phase, optimizer: phase }),
);
const size = 2;

/** The products of the model of the ranks, for 8 rows: the input of the first layer needs no gradient. */
const layers = [6 * 10, 10 * 6, 6 * 4].map((weights) => 2 * 8 * weights);
const forward = layers.reduce((sum, flops) => sum + flops, 0);
const backward = 2 * forward - (layers[0] ?? 0);

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

  const sumOf = (strategy: string, part: keyof z.infer<typeof works>[string]): number =>
    ranks.reduce((sum, found) => sum + (found[strategy]?.[part].flops ?? Number.NaN), 0);

  it.each(['ddp', 'zero', 'fsdp', 'pipeline'])('add up to those of one rank under %s', (name) => {
    expect(strategyNames).toContain(name);
    expect(sumOf(name, 'forward')).toBe(forward);
    expect(sumOf(name, 'backward')).toBe(backward);
    expect(sumOf(name, 'recomputation')).toBe(0);
  });

  it('add up to those of one rank under tensor parallelism, but for the layer that no rank divides', () => {
    const [, , whole = 0] = layers;
    expect(sumOf('tensorParallel', 'forward')).toBe(forward + whole);
    expect(sumOf('tensorParallel', 'backward')).toBe(backward + 2 * whole);
  });
});

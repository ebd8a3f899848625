import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { passObservations, type PassObservations } from './ranks/passes.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 3;
let ranks: readonly PassObservations[] = [];

beforeAll(async () => {
  const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
  const found = await runRanks(size, new URL('./ranks/passes.ts', import.meta.url), {
    world,
    timeoutMs: trainingMs,
  });
  ranks = z.array(passObservations).length(size).parse(found);
}, testMs);

describe('buckets', () => {
  const declared = [['middle.weight'], ['first.weight'], ['last.weight']];
  // Backward visits the layers in the reverse of the order in which rank 0 used them.
  const arrived = [['last.weight'], ['middle.weight'], ['first.weight']];

  it("buckets are filled again in the order of rank 0's gradients when the first step is over", () => {
    for (const { buckets } of ranks) {
      // The backward pass of the second step is the first that uses the new buckets.
      expect(buckets['findUnusedParameters: false']).toEqual([
        declared,
        declared,
        arrived,
        arrived,
      ]);
    }
  });

  it('buckets stay as they are where parameters may be unused', () => {
    for (const { buckets } of ranks) {
      expect(buckets['findUnusedParameters: true']).toEqual([
        declared,
        declared,
        declared,
        declared,
      ]);
    }
  });

  it('buckets give the mean of the ranks in either order', () => {
    const mean = (1 + 2 + 3) / 3;
    for (const { gradients } of ranks)
      expect(gradients).toEqual({
        'last.weight': mean,
        'first.weight': mean,
        'middle.weight': mean,
      });
  });
});

describe('a static graph', () => {
  it('a static graph counts parameters that no pass uses as zero', () => {
    const mean = (0 + 1 + 2) / 3;
    for (const { staticGraph } of ranks) {
      expect(staticGraph.gradients).toEqual({
        'a.weight in step 0': mean,
        'b.weight in step 0': 0,
        'a.weight in step 1': mean,
        'b.weight in step 1': 0,
        'a.weight in step 2': mean,
        'b.weight in step 2': 0,
      });
    }
  });

  it('a static graph is an error where a later step uses other parameters, which it names', () => {
    for (const { staticGraph } of ranks) {
      expect(staticGraph.errors).toHaveLength(2);
      const [more, fewer] = staticGraph.errors;
      expect(more?.code).toBe('TENSOR_STATE');
      expect(more?.message).toContain('b.weight got a gradient for the first time');
      expect(fewer?.code).toBe('TENSOR_STATE');
      expect(fewer?.message).toContain('b.weight got no gradient this time');
    }
  });
});

describe('buffers', () => {
  it("of one dtype travel as one message, and are rank 0's on all ranks", () => {
    for (const { buffers } of ranks) {
      expect(buffers.collectives).toBe(2);
      expect(buffers.values).toEqual({
        mean: [1, 1],
        variance: [1, 1, 1, 1],
        count: [1],
        epoch: [1, 1],
      });
    }
  });
});

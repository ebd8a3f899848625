import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { constructedPipeline, type ConstructTask } from './ranks/construct-pipeline.ts';
import { trainingMs } from './time-limits.ts';

type Ranks = readonly z.infer<typeof constructedPipeline>[];

async function ranksOf(task: ConstructTask): Promise<Ranks> {
  const size = task.axes.reduce((product, axis) => product * axis.size, 1);
  const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
  const url = new URL('./ranks/construct-pipeline.ts', import.meta.url);
  const found = await spawnRanks(size, url, { world, data: task, timeoutMs: trainingMs });
  return z.array(constructedPipeline).length(size).parse(found);
}

const parameterBytes = 8 * 4 * (96 * 96 + 96);

function expectSame(ranks: Ranks, names: readonly string[]): void {
  for (const name of names) {
    for (const rank of ranks) {
      const { whole, inParts, otherSeeds } = rank[name] ?? expect.fail(name);
      expect(otherSeeds, `${name}, of other seeds`).toMatch(
        /CollectiveMismatchError: .*rank 1 differs from rank 0 at tensor 0.*call manualSeed\(\) with one seed/,
      );
      expect(inParts.trained, name).toEqual(whole.trained);
    }
    const kept = ranks.map((rank) => rank[name]?.keptBytes ?? Number.NaN);
    expect(Math.max(...kept), name).toBeLessThan(parameterBytes);
  }
}

describe('a model whose rank builds the parameters of its stages alone', () => {
  it('a model whose rank builds the parameters of its stages alone has the values, losses and random numbers of one that was built whole, in half of the memory', async () => {
    const ranks = await ranksOf({ axes: [{ name: 'pp', size: 2 }], names: ['alone'] });
    expectSame(ranks, ['alone']);
    for (const { alone } of ranks) {
      const { keptBytes, inParts } = alone ?? expect.fail();
      expect(keptBytes).toBe(parameterBytes / 2);
      const { peakBytes, plannedBytes } = inParts;
      expect(plannedBytes).toBe(parameterBytes);
      // While gradients are accumulated, memory holds the sum, the new gradient and the new sum, and a few rows of
      // activations.
      expect(peakBytes).toBeLessThan(1.1 * 2 * plannedBytes);
    }
  });

  it('a model whose rank builds the parameters of its stages alone is sharded further by what divides the batch', async () => {
    const axes = [
      { name: 'pp', size: 2 },
      { name: 'dp', size: 2 },
    ];
    const names = ['DDP', 'ZeRO-1', 'FSDP'];
    const ranks = await ranksOf({ axes, names });
    expectSame(ranks, names);
    for (const { FSDP, DDP } of ranks) {
      expect(DDP?.keptBytes).toBe(parameterBytes / 2);
      expect(FSDP?.keptBytes).toBe(parameterBytes / 4);
    }
  });

  it('a model whose rank builds the parameters of its stages alone is sharded before by tensor parallelism', async () => {
    const axes = [
      { name: 'tp', size: 2 },
      { name: 'pp', size: 2 },
    ];
    const names = ['tensor parallelism'];
    expectSame(await ranksOf({ axes, names }), names);
  });
});

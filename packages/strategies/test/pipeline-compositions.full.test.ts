import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type CompositionTask, compositions } from './ranks/pipeline-compositions.ts';

const moduleUrl = new URL('./ranks/pipeline-compositions.ts', import.meta.url);

const tasks: Readonly<Record<string, CompositionTask>> = {
  'batches in two shares': {
    axes: [
      { name: 'pp', size: 2 },
      { name: 'dp', size: 2 },
    ],
    names: ['DDP', 'ZeRO-1', 'ZeRO-2', 'ZeRO-3', 'FSDP'],
  },
  'layers in two parts': {
    axes: [
      { name: 'pp', size: 2 },
      { name: 'tp', size: 2 },
    ],
    names: ['alone'],
  },
  'three dimensions': {
    axes: [
      { name: 'pp', size: 2 },
      { name: 'dp', size: 2 },
      { name: 'tp', size: 2 },
    ],
    names: ['DDP', 'ZeRO-1', 'ZeRO-2', 'ZeRO-3', 'FSDP'],
  },
};

describe.each(Object.entries(tasks))('a pipeline composed with %s', (_, task) => {
  it('trains as one rank', async () => {
    const size = task.axes.reduce((product, axis) => product * axis.size, 1);
    const world = createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 });
    const options = { world, data: task, timeoutMs: 200_000 };
    const ranks = z.array(compositions).parse(await spawnRanks(size, moduleUrl, options));
    for (const name of task.names) {
      const alone = ranks[0]?.[name]?.alone ?? expect.fail(name);
      for (const rank of ranks) {
        const found = rank[name]?.parallel ?? expect.fail(name);
        const parallel = typeof found === 'string' ? expect.fail(`${name}: ${found}`) : found;
        for (const [step, loss] of alone.losses.entries()) {
          expect(parallel.losses[step], `${name}, step ${step}`).toBeCloseTo(loss, 4);
        }
        for (const [index, square] of alone.parameters.entries()) {
          expect(parallel.parameters[index], `${name}, parameter ${index}`).toBeCloseTo(square, 2);
        }
        expect(parallel.held, name).toBeLessThan(alone.held);
      }
    }
  });
});

import { describe, expect, it } from 'vitest';
import { expectComposed } from './pipeline-composition-cases.ts';
import type { CompositionTask } from './ranks/pipeline-compositions.ts';

const four = [
  { name: 'pp', size: 2 },
  { name: 'dp', size: 2 },
] as const;
const all = ['DDP', 'ZeRO-1', 'ZeRO-2', 'ZeRO-3', 'FSDP'];

const tasks: Readonly<Record<string, CompositionTask>> = {
  'batches in two shares': { axes: four, names: all, tied: true },
  'batches in two shares, and steps ahead of the norm': {
    axes: four,
    names: all,
    tied: true,
    ahead: true,
  },
  'batches in two shares in three dimensions': {
    axes: [...four, { name: 'tp', size: 2 }],
    names: ['ZeRO-1', 'FSDP'],
    tied: true,
  },
};

describe.each(Object.entries(tasks))(
  'a head that shares the embedding of another stage, with %s',
  (_, task) => {
    it('trains as one rank', { timeout: 300_000 }, async () => {
      await expectComposed(task);
      expect.hasAssertions();
    });
  },
);

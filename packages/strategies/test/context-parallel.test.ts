import { createThreadsWorld } from '@shardwise/collectives';
import { cpu } from '@shardwise/backend-cpu';
import { setRank } from '@shardwise/core';
import { assertAllclose, interpreter } from '@shardwise/testing';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { type AttentionTask, trainAlone, trained } from './ranks/context-parallel.ts';
import { trainingMs } from './time-limits.ts';

const plain: AttentionTask = {
  method: 'ring',
  order: 'headTail',
  cp: 2,
  shared: 'ddp',
  rows: 2,
  lengths: [12, 12],
  heads: 2,
  groups: 2,
  causal: true,
  window: null,
  documents: null,
  masked: false,
  memory: false,
  device: 'cpu',
};

const cases: Readonly<Record<string, Partial<AttentionTask>>> = {
  'of causal attention': {},
  'of attention to all tokens': { causal: false },
  'on a backend that computes attention from products': { device: 'interpreter' },
  'of two heads of queries for each head of keys': { heads: 4 },
  'of a sliding window': { window: 4 },
  'of packed documents': { documents: 5 },
  'of packed documents in which every token sees all': { documents: 5, causal: false },
  'of padding that no query sees': { masked: true, causal: false },
  'of a memory that all ranks have': { memory: true },
  'of lengths that vary and that the ranks do not divide': { lengths: [12, 7, 9, 12, 5] },
  'in the contiguous order': { order: 'contiguous' },
  'with ZeRO': { shared: 'zero' },
  'with FSDP': { shared: 'fsdp' },
};

async function compare(size: number, tasks: readonly AttentionTask[]): Promise<void> {
  const sorted = [...tasks].sort((a, b) => a.device.localeCompare(b.device));
  const found = await runRanks(size, new URL('./ranks/context-parallel.ts', import.meta.url), {
    world: createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 }),
    data: sorted,
    timeoutMs: trainingMs,
  });
  const byRank = z.array(z.array(trained)).length(size).parse(found);
  for (const [index, task] of sorted.entries()) {
    setRank({ device: task.device === 'cpu' ? await cpu() : interpreter() });
    const expected = await trainAlone(task);
    const results = byRank.map((each) => each[index]);
    for (const result of results) {
      expect(result).toBeDefined();
      assertAllclose(result?.weights ?? [], expected.weights, { rtol: 1e-5, atol: 1e-5 });
    }
    const dp = size / task.cp;
    const losses = expected.losses.map((_, step) => {
      const own = results.map((each) => each?.losses[step] ?? NaN);
      return own.reduce((sum, each) => sum + each, 0) / own.length;
    });
    if (dp === 1) assertAllclose(losses, expected.losses, { rtol: 1e-5, atol: 1e-5 });
  }
}

describe.each(['ring', 'allGather', 'ulysses'] as const)(
  'context parallelism by the method %s trains as one rank does',
  (method) => {
    it.each(Object.keys(cases))('%s', async (name) => {
      await compare(2, [{ ...plain, ...cases[name], method }]);
    });
  },
);

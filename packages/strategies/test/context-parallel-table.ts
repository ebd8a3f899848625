import { beforeAll, describe, it } from 'vitest';
import { someForRow } from '../../../test/support/some-for-row.ts';
import { type ComparedTask, compareWithOneRank, trainOnOneRank } from './compare-with-one-rank.ts';
import type { Trained } from './attention-training.ts';

const plain: ComparedTask = {
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
  sources: null,
  device: 'cpu',
};

const cases: Readonly<Record<string, Partial<ComparedTask>>> = {
  'of causal attention': {},
  'of attention to all tokens': { causal: false },
  'on a backend that computes attention from products': { device: 'interpreter' },
  'of two heads of queries for each head of keys': { heads: 4 },
  'of a sliding window': { window: 4 },
  'of packed documents': { documents: 5 },
  'of packed documents in which every token sees all': { documents: 5, causal: false },
  'of padding that no query sees': { masked: true, causal: false },
  'of a memory that all ranks have': { memory: true },
  'of two sequences of other lengths': { lengths: [12, 7], sources: [5, 8], causal: false },
  'of a causal query of another sequence': { lengths: [12, 7, 6], sources: [12, 16, 8] },
  'of lengths that vary and that the ranks do not divide': { lengths: [12, 7, 9, 12, 5] },
  'in the contiguous order': { order: 'contiguous' },
  'with ZeRO': { shared: 'zero' },
  'with FSDP': { shared: 'fsdp' },
};

const methods = ['ring', 'allGather', 'ulysses'] as const;
const rows = Object.entries(cases).map((each, row) => [...each, row] as const);

/** Tests each case on two ranks: by all methods, or by one. */
export function contextParallelTable({ hasAll }: { readonly hasAll: boolean }): void {
  describe.each(rows)('context parallelism %s', (_, own, row) => {
    const task = { ...plain, ...own };
    let alone: Trained | undefined;
    beforeAll(async () => {
      alone = await trainOnOneRank(task);
    });

    it.each(hasAll ? methods : someForRow({ row, rows: rows.length }, methods, 1))(
      'trains as one rank does, by the method %s',
      (method) => compareWithOneRank(2, { ...task, method }, alone),
    );
  });
}

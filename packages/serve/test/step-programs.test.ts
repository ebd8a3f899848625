import { statistics } from '@shardwise/core';
import { Generator } from '@shardwise/core/extend';
import { GPT2LMHeadModel, modelFacts } from '@shardwise/models';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { BlockAllocator, type BlockCopy } from '../src/blocks/block-allocator.ts';
import { BlockTable } from '../src/blocks/block-table.ts';
import { ModelSteps } from '../src/cache/model-steps.ts';
import { PagedCache } from '../src/cache/paged-cache.ts';
import { layOut, type TokenRun } from '../src/cache/step-layout.ts';
import { Scheduler } from '../src/scheduling/scheduler.ts';
import { useCpu } from './models.ts';

/** A rank that has compiled nothing yet. */
beforeEach(useCpu);

const disposed: PagedCache[] = [];
afterEach(() => {
  for (const cache of disposed.splice(0)) cache.dispose();
});

const blockSize = 8;

/** Runs steps of a small model on tokens of sequences that nobody else has. */
function smallSteps(maxSequences: number, maxChunkTokens: number, blockCount = 512) {
  const model = new GPT2LMHeadModel(
    { vocabSize: 61, nPositions: 96, nEmbd: 12, nLayer: 1, nHead: 3 },
    { generator: new Generator(1) },
  );
  model.eval();
  const sizes = { blockCount, blockSize, maxSequences, maxChunkTokens, maxTokens: 96 };
  const cache = new PagedCache({ ...sizes, kvCacheDtype: 'auto' });
  disposed.push(cache);
  const steps = new ModelSteps(model, modelFacts(model), cache);
  const { spareBlock } = cache;
  return {
    /** Computes the last tokens of sequences of these lengths: of the first as many as `chunk` says, of the others one. */
    run: async (
      chunk: number,
      lengths: readonly number[],
      copies: readonly BlockCopy[] = [],
    ): Promise<number> => {
      const before = statistics().programsCompiled;
      const allocator = new BlockAllocator(blockCount);
      const scheduler = new Scheduler({ blockCount, blockSize });
      const runs = lengths.map((length, index): TokenRun => {
        const count = index === 0 && chunk > 0 ? chunk : 1;
        const table = new BlockTable(allocator, blockSize);
        table.append(length);
        const sequence = scheduler.add({ prompt: [1], maxNewTokens: 1 });
        sequence.table = table;
        const tokens = Array.from({ length: count }, (_, at) => at + 1);
        return { sequence, start: length - count, tokens, isChunk: count > 1 };
      });
      const layout = layOut(runs, { blockSize, spareBlock });
      const rows = await steps.run({ copies, layout, withLogProbabilities: false });
      expect(rows.every(({ scores }) => scores.every(Number.isFinite))).toBe(true);
      return statistics().programsCompiled - before;
    },
  };
}

test.each([
  [32, 24],
  [1, 2],
  [3, 5],
])(
  'Two programs serve all sizes of each form of a step: at most %i sequences and chunks of %i tokens.',
  async (maxSequences, maxChunkTokens) => {
    const { run } = smallSteps(maxSequences, maxChunkTokens);
    const generator = new Generator(3);
    const between = (least: number, most: number): number =>
      least + Math.floor((generator.uniform(1, 0, 1)[0] ?? 0) * (most - least + 1));
    const counts: number[] = [];
    for (let step = 0; step < 40; step++) {
      const chunk = step % 3 === 1 ? 0 : between(2, maxChunkTokens);
      const others = step % 3 === 0 ? 0 : between(1, maxSequences);
      const all = Array.from({ length: others + Number(chunk > 0) }, () => between(24, 96));
      counts.push(await run(chunk, all));
    }
    expect(counts.slice(0, 3)).toEqual([2, 2, 2]);
    expect(counts.slice(3).every((count) => count === 0)).toBe(true);
  },
);

test('Steps with some sequences more or less have the same sizes, and scores of those that there are.', () => {
  const scheduler = new Scheduler({ blockCount: 512, blockSize });
  const runs = Array.from({ length: 8 }, (_, index): TokenRun => {
    const sequence = scheduler.add({ prompt: [1, 2, 3], maxNewTokens: 1 });
    sequence.table.append(3);
    return { sequence, start: 2, tokens: [index], isChunk: false };
  });
  const layouts = [5, 6, 7, 8].map((count) =>
    layOut(runs.slice(0, count), { blockSize, spareBlock: 512 }),
  );
  for (const [index, { groups, scored }] of layouts.entries()) {
    expect(groups.map(({ sequences, queries }) => [sequences, queries])).toEqual([[8, 1]]);
    expect(scored.filter((run) => run !== null)).toEqual(runs.slice(0, 5 + index));
    expect(scored).toHaveLength(8);
  }
});

test('A sequence that is alone has one more token beside it, and not several.', () => {
  const scheduler = new Scheduler({ blockCount: 512, blockSize });
  const sequence = scheduler.add({ prompt: [1, 2, 3], maxNewTokens: 1 });
  sequence.table.append(3);
  const run: TokenRun = { sequence, start: 2, tokens: [3], isChunk: false };
  const { groups, scored } = layOut([run], { blockSize, spareBlock: 512 });
  expect(groups.map(({ sequences }) => sequences)).toEqual([2]);
  expect(scored).toEqual([run, null]);
});

test('A step that begins with copies of blocks has the program of one without them.', async () => {
  const { run } = smallSteps(8, 8);
  await run(0, [30, 40]);
  const copies = Array.from({ length: 11 }, (_, at) => ({ from: at + 20, to: at + 40 }));
  // One for the copies, of however many blocks.
  expect(await run(0, [30, 40], copies.slice(0, 1))).toBe(1);
  expect(await run(0, [30, 40], copies.slice(0, 3))).toBe(0);
  expect(await run(0, [50, 31, 33], copies)).toBe(0);
});

test('A cache with another number of blocks has one program more for each form, and none later.', async () => {
  const run = async (blockCount: number): Promise<readonly number[]> => {
    const small = smallSteps(8, 24, blockCount);
    const counts: number[] = [];
    for (const [chunk, ...lengths] of [
      [9, 30],
      [0, 40, 50, 60],
      [7, 24, 31, 48],
      [11, 70],
      [0, 29, 90, 37, 52],
      [24, 96, 25],
    ]) {
      counts.push(await small.run(chunk ?? 0, lengths));
    }
    return counts;
  };
  expect(await run(512)).toEqual([2, 2, 2, 0, 0, 0]);
  expect(await run(400)).toEqual([1, 1, 1, 0, 0, 0]);
  expect(await run(512)).toEqual([0, 0, 0, 0, 0, 0]);
});

import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { expect, test } from 'vitest';
import { outcomes, type StrategyTask } from './ranks/strategies.ts';

const axes = {
  dp: { name: 'dp', size: 2 },
  tp: { name: 'tp', size: 2 },
  pp: { name: 'pp', size: 2 },
  ep: { name: 'ep', size: 2 },
  cp: { name: 'cp', size: 2 },
};

/** Which strategies run on which mesh. */
const worlds: readonly Omit<StrategyTask, 'models' | 'isPacked'>[] = [
  { axes: [axes.dp], strategies: ['ddp', 'zero-3', 'fsdp'] },
  { axes: [axes.tp], strategies: ['tp'] },
  { axes: [axes.pp], strategies: ['pp'] },
  { axes: [axes.dp, axes.tp], strategies: ['tp × fsdp'] },
];

const LIMIT_MS = 300_000;

/** Trains models on one rank and by each strategy, which is told nothing of them, and compares. */
export function compareStrategies(models: readonly string[]): void {
  compareIn(worlds, models);
}

/** Does the same for rows of packed documents. */
export function compareDocuments(models: readonly string[]): void {
  const ofModel = worlds.filter(({ strategies }) => ['tp', 'pp'].includes(strategies.join()));
  compareIn(ofModel, models, true);
}

/** Does the same for models with experts, which ranks divide. */
export function compareExperts(models: readonly string[]): void {
  compareIn([{ axes: [axes.ep], strategies: ['ep'] }], models);
}

/** Does the same where ranks have parts of rows, with and without packed documents. */
export function compareParts(models: readonly string[]): void {
  compareIn([{ axes: [axes.cp], strategies: ['cp ring', 'cp allGather', 'cp ulysses'] }], models);
  compareIn([{ axes: [axes.cp], strategies: ['cp ring', 'cp ulysses'] }], models, true);
}

/** Does the same where other ranks have parts of layers. */
export function comparePartsOfLayers(models: readonly string[]): void {
  compareIn([{ axes: [axes.tp, axes.cp], strategies: ['tp × cp'] }], models);
  compareIn([{ axes: [axes.pp, axes.cp], strategies: ['pp × cp'] }], models, true);
}

function compareIn(of: typeof worlds, models: readonly string[], isPacked = false): void {
  test.each(of)('$strategies', { timeout: LIMIT_MS }, async (world) => {
    const data: StrategyTask = { ...world, models, isPacked };
    const size = data.axes.reduce((product, each) => product * each.size, 1);
    const results = await spawnRanks(size, new URL('./ranks/strategies.ts', import.meta.url), {
      world: createThreadsWorld({ size }),
      data,
      timeoutMs: LIMIT_MS,
    });
    expect(results).toHaveLength(size);
    const isSplit = [axes.dp, axes.ep].some((axis) => data.axes.includes(axis));
    for (const result of results) {
      for (const [model, { alone, parallel }] of Object.entries(outcomes.parse(result))) {
        for (const [strategy, found] of Object.entries(parallel)) {
          expectEqual(found.losses, alone.losses, `losses of ${model} by ${strategy}`);
          // Ranks with a part of the batch have a part of the logits.
          if (isSplit) continue;
          expectEqual(found.logits, alone.logits, `logits of ${model} by ${strategy}`);
        }
      }
    }
  });
}

function expectEqual(found: readonly number[], expected: readonly number[], name: string): void {
  expect(found.length, name).toBe(expected.length);
  for (const [i, value] of expected.entries()) {
    expect(Math.abs((found[i] ?? NaN) - value), `${name}, ${i}`).toBeLessThan(
      2e-5 * Math.max(1, Math.abs(value)),
    );
  }
}

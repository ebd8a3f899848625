import { cpu } from '@shardwise/backend-cpu';
import { setRank } from '@shardwise/core';
import { assertAllclose, interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { expect } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import {
  type AttentionTask,
  trainAlone,
  type Trained,
  trainInParts,
} from './attention-training.ts';

/** Trains on one rank without a strategy, whatever the method is. */
export async function trainOnOneRank(task: AttentionTask): Promise<Trained> {
  setRank({ device: task.device === 'cpu' ? await cpu() : interpreter() });
  return trainAlone(task);
}

/**
 * Trains on this many ranks, and compares losses and trained weights with those of one rank, which are trained now if
 * they are not given.
 */
export async function compareWithOneRank(
  size: number,
  task: AttentionTask,
  alone?: Trained,
): Promise<void> {
  const expected = alone ?? (await trainOnOneRank(task));
  const dp = size / task.cp;
  const axes = [
    { name: 'dp', size: dp },
    { name: 'cp', size: task.cp },
  ];
  const device = task.device === 'cpu' ? onCpu : {};
  const ranks = await onRanks(size, () => trainInParts(task), { axes, ...device });
  for (const { weights } of ranks) {
    expect(weights).toHaveLength(expected.weights.length);
    assertAllclose(weights, expected.weights, { rtol: 1e-5, atol: 1e-5 });
  }
  if (dp > 1) return;
  const losses = expected.losses.map(
    (_, step) =>
      ranks.reduce((sum, { losses }) => sum + (losses[step] ?? Number.NaN), 0) / ranks.length,
  );
  assertAllclose(losses, expected.losses, { rtol: 1e-5, atol: 1e-5 });
}

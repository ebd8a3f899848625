import type { Backend } from '@shardwise/core/spec';
import { assertAllclose, interpreter, type Tolerance } from '@shardwise/testing';
import { onRanks, type OnRanksOptions } from '@shardwise/testing/node';
import { expect } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { meanOverRanks } from './as-one-rank.ts';
import {
  type AttentionTask,
  trainAlone,
  type Trained,
  trainInParts,
} from './attention-training.ts';

/** A training, and the devices on which it is compared. */
export interface ComparedTask extends AttentionTask {
  readonly device: 'cpu' | 'interpreter';
}

/** What one rank and several have, and how near to each other they are. */
export interface Devices extends Pick<OnRanksOptions, 'idleTimeoutMs'> {
  readonly createDevice: () => Backend | Promise<Backend>;
  readonly tolerance: Tolerance;
}

const near: Tolerance = { rtol: 1e-5, atol: 1e-5 };
const devices: Readonly<Record<ComparedTask['device'], Devices>> = {
  cpu: { ...onCpu, tolerance: near },
  interpreter: { createDevice: () => interpreter(), tolerance: near },
};

/** Trains on one rank without a strategy, whatever the method is. */
export function trainOnOneRank(task: ComparedTask): Promise<Trained> {
  return trainOnOneOf(devices[task.device], task);
}

/**
 * Trains on this many ranks, and compares losses and trained weights with those of one rank, which are trained now if
 * they are not given.
 */
export function compareWithOneRank(
  size: number,
  task: ComparedTask,
  alone?: Trained,
): Promise<void> {
  return compareOn(devices[task.device], size, task, alone);
}

/** Does the same on other devices. */
export async function compareOn(
  { tolerance, ...options }: Devices,
  size: number,
  task: AttentionTask,
  alone?: Trained,
): Promise<void> {
  const expected = alone ?? (await trainOnOneOf({ tolerance, ...options }, task));
  const dp = size / task.cp;
  const axes = [
    { name: 'dp', size: dp },
    { name: 'cp', size: task.cp },
  ];
  const ranks = await onRanks(size, () => trainInParts(task), { axes, ...options });
  for (const { weights } of ranks) {
    expect(weights).toHaveLength(expected.weights.length);
    assertAllclose(weights, expected.weights, tolerance);
  }
  if (dp > 1) return;
  const losses = meanOverRanks(ranks.map((rank) => rank.losses));
  assertAllclose(losses, expected.losses, tolerance);
}

/** Trains on one rank with one of these devices. */
export async function trainOnOneOf(
  { tolerance: _, ...options }: Devices,
  task: AttentionTask,
): Promise<Trained> {
  const [alone = expect.fail('no rank')] = await onRanks(1, () => trainAlone(task), options);
  return alone;
}

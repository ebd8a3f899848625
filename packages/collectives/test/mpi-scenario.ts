import type { ProcessGroup } from '@shardwise/core/spec';
import {
  runProcessGroupScenario,
  typed,
  valuesOf,
  type ProcessGroupScenario,
} from '@shardwise/testing/ranks';

/** Runs one rank's part of the contract. */
export function main(group: ProcessGroup, scenario: ProcessGroupScenario): Promise<unknown> {
  return runProcessGroupScenario(group, scenario);
}

/** Returns integer sums that are too large for their dtype and wrap around. */
export async function overflow(group: ProcessGroup): Promise<readonly unknown[]> {
  const largest = { u8: 255, i32: 2 ** 31 - 1 } as const;
  const answers: unknown[] = [];
  for (const dtype of ['u8', 'i32'] as const) {
    const buffer = typed(
      dtype,
      Array.from({ length: 100 }, () => largest[dtype]),
    );
    await group.allReduce(buffer, 'sum');
    answers.push([...new Set(valuesOf(buffer))]);
  }
  return answers;
}

import { initialRanks, reduceRanks } from '../src/run-state/rank-figures.ts';
import type { RunMessage, StepReport } from '../src/run-state/run-message.ts';
import type { RunSnapshot } from '../src/top/run-snapshot.ts';
import { type SnapshotParts, takeSnapshot } from '../src/top/take-snapshot.ts';
import { head, runOf, stepReport } from './run-fixture.ts';

/** Returns the snapshot of a run that has sent these messages. */
export function snapshotOf(
  messages: readonly RunMessage[],
  more: Partial<SnapshotParts> & { readonly worldSize?: number } = {},
): RunSnapshot {
  const { worldSize = 2, ...parts } = more;
  return takeSnapshot({
    state: runOf(messages, worldSize),
    ranks: messages.reduce(reduceRanks, initialRanks(worldSize)),
    sequence: 1,
    nowMs: head.startMs + 60_000,
    quietMs: Array.from({ length: worldSize }, () => 0),
    ...parts,
  });
}

/** The ranks of several hosts start. */
export function generation(hosts: number, ranksPerHost: number): RunMessage {
  return {
    kind: 'generation',
    epoch: 0,
    worldSize: hosts * ranksPerHost,
    transport: `hosted (${hosts * ranksPerHost} processes of ${hosts} hosts)`,
    hosts: Array.from({ length: hosts }, (_, host) => ({
      name: `node-${host}`,
      ranks: ranksPerHost,
    })),
  };
}

/**
 * Returns three steps of ranks that wait for each other: each step takes as long as the slowest rank works, of which
 * `workMs` says how long.
 */
export function threeSteps(
  worldSize: number,
  workMs: (rank: number) => number,
  more: Partial<StepReport> = {},
): readonly StepReport[] {
  const stepMs = 15 + Math.max(...Array.from({ length: worldSize }, (_, rank) => workMs(rank)));
  return [1, 2, 3].flatMap((step) =>
    Array.from({ length: worldSize }, (_, rank) => {
      const communicationMs = stepMs - workMs(rank);
      const computeMs = 0.9 * workMs(rank);
      return stepReport(rank, step, { stepMs, communicationMs, computeMs, ...more });
    }),
  );
}

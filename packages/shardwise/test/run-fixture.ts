import type { RunMessage, StepReport } from '../src/run-state/run-message.ts';
import {
  initialRunState,
  reduceRun,
  type RunHead,
  type RunState,
} from '../src/run-state/run-state.ts';

export const head: RunHead = {
  command: 'shardwise run --nproc 2 train.ts',
  script: 'train.ts',
  runDirectory: 'runs/example',
  worldSize: 2,
  startMs: Date.UTC(2026, 0, 31, 12),
  engine: 'Node v24.21.0',
};

/** Returns the report of a rank about a step of 100 ms. */
export function stepReport(rank: number, step: number, more: Partial<StepReport> = {}): StepReport {
  return {
    kind: 'step',
    rank,
    step,
    totalSteps: 100,
    loss: 4 / step,
    tokens: 1000,
    endMs: head.startMs + 100 * step,
    stepMs: 100,
    computeMs: 70,
    communicationMs: 15,
    dataMs: 5,
    graphMs: 4,
    memoryBytes: (300 + rank) * 2 ** 20,
    ...more,
  };
}

export function runOf(messages: readonly RunMessage[], worldSize = 2): RunState {
  return messages.reduce(reduceRun, initialRunState({ ...head, worldSize }));
}

/** Returns the reports of both ranks about steps 1 to `steps`. */
export function reports(steps: number): readonly StepReport[] {
  return Array.from({ length: steps }, (_, index) =>
    [0, 1].map((rank) => stepReport(rank, index + 1)),
  ).flat();
}

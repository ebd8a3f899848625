import type { Step, StepMap } from './step.ts';

/** Products of rows in groups. Machine code computes them if it computes products at all. */
export type GroupedStep = StepMap['groupedMatmul'] | StepMap['groupedMatmulWeight'];

export function isGroupedStep(step: Step): step is GroupedStep {
  return step.op === 'groupedMatmul' || step.op === 'groupedMatmulWeight';
}

import type { ValueType } from '@shardwise/core/spec';
import { inputAt, type Step, type StepMap, valueAt } from './instruction.ts';

/** Products of rows in groups. Machine code computes them if it computes products at all. */
export type GroupedStep = StepMap['groupedMatmul'] | StepMap['groupedMatmulWeight'];

export function isGroupedStep(step: Step): step is GroupedStep {
  return step.op === 'groupedMatmul' || step.op === 'groupedMatmulWeight';
}

/** Whether a step is a product of bf16 values. Only machine code computes such products. */
export function isNarrowProduct(
  step: Step,
  values: readonly ValueType[],
): step is StepMap['matmul'] | GroupedStep {
  return isProduct(step) && valueAt(values, inputAt(step, 0)).dtype === 'bf16';
}

export function isProduct(step: Step): step is StepMap['matmul'] | GroupedStep {
  return step.op === 'matmul' || isGroupedStep(step);
}

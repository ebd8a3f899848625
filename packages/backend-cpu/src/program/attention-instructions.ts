import type { Step, StepMap } from './instruction.ts';

/** A forward step of attention. Machine code computes it block by block, if it can run products and loops. */
type ForwardStep = StepMap['attention'] | StepMap['attentionLogSumExp'];
type BackwardStep =
  | StepMap['attentionQueryGrad']
  | StepMap['attentionKeyGrad']
  | StepMap['attentionValueGrad'];
export type AttentionStep = ForwardStep | BackwardStep;

export function isForward(step: Step): step is ForwardStep {
  return step.op === 'attention' || step.op === 'attentionLogSumExp';
}

export function isAttentionStep(step: Step): step is AttentionStep {
  return (
    isForward(step) ||
    step.op === 'attentionQueryGrad' ||
    step.op === 'attentionKeyGrad' ||
    step.op === 'attentionValueGrad'
  );
}
/**
 * How many of the first inputs of each step of attention have heads: queries, keys, values, and gradients of the
 * result.
 */
export const headInputs = {
  attention: 3,
  attentionLogSumExp: 2,
  attentionQueryGrad: 4,
  attentionKeyGrad: 4,
  attentionValueGrad: 4,
} as const;

/**
 * Steps with the same key are computed together. They have the same inputs and params; `attention` is compared without
 * its values.
 */
export function fusionKey(step: AttentionStep): string {
  const { causal, scale, rounding } = step.params;
  const own = step.op === 'attention' ? step.inputs.toSpliced(2, 1) : step.inputs;
  return JSON.stringify([isForward(step), causal, scale, rounding, own]);
}

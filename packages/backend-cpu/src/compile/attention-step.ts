import type { Step, StepMap } from './step.ts';

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

import { type AttentionStep, isForward } from './attention-step.ts';

/**
 * Steps with the same key are computed together. They have the same inputs and params; `attention` is compared without
 * its values.
 */
export function fusionKey(step: AttentionStep): string {
  const { causal, scale, rounding } = step.params;
  const own = step.op === 'attention' ? step.inputs.toSpliced(2, 1) : step.inputs;
  return JSON.stringify([isForward(step), causal, scale, rounding, own]);
}

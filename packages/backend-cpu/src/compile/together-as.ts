import { type AttentionStep, isForward } from './attention-step.ts';

/** Steps of one name are made together: those of one list of inputs. */
export function togetherAs(step: AttentionStep): string {
  const { causal, scale, rounding } = step.params;
  const own = step.op === 'attention' ? step.inputs.toSpliced(2, 1) : step.inputs;
  return JSON.stringify([isForward(step), causal, scale, rounding, own]);
}

import { attentionWorkOf } from './attention-work-of.ts';
import type { AttentionPlanning } from './attention-planning.ts';
import { headViews } from './head-views.ts';
import { gatherGradients } from './gather-gradients.ts';
import { inputAt, type Step, valueAt } from '../../program/instruction.ts';
import type { Rewriter, Uses } from '../../program/rewriter.ts';
import {
  type AttentionStep,
  isAttentionStep,
  isForward,
  fusionKey,
  headInputs,
} from '../../program/attention-instructions.ts';

/** If the attention rounds its weights to bf16, makes it read the bf16 values that its f32 operands were cast from. */
function narrowAttention(step: Step, rewriter: Rewriter): Step {
  if (!isAttentionStep(step) || step.params.rounding !== 'bf16') return step;
  const count = headInputs[step.op];
  const narrow = step.inputs.map((id, index) => {
    const producer = index < count ? rewriter.producer(id) : undefined;
    if (producer?.op !== 'cast') return id;
    const input = inputAt(producer, 0);
    return valueAt(rewriter.values, input).dtype === 'bf16' ? input : id;
  });
  return { ...step, inputs: narrow };
}

/** If attention's result is only cast to bf16 and has no other reader, makes the attention store bf16. */
function narrowAttentionResult(step: Step, uses: Uses, rewriter: Rewriter): Step {
  if (step.op !== 'cast' || step.dtype !== 'bf16') return step;
  const input = inputAt(step, 0);
  const made = rewriter.producer(input);
  if (made === undefined || !isAttentionStep(made) || uses.get(input) !== 1) return step;
  if (made.params.rounding !== 'bf16' || made.dtype !== 'f32') return step;
  return { ...made, dtype: 'bf16', output: step.output };
}

/**
 * Moves the logarithms of sums behind the attention of the same queries and keys that comes last before them, because
 * both are computed together. Attention that comes later may depend on the logarithms. The logarithms get the
 * attention's result as an additional input, although they don't need it, so that they wait for what the attention
 * waits for.
 */
function withLogSums(steps: readonly Step[]): readonly Step[] {
  const results = new Map<string, AttentionStep>();
  const logSums = new Map<Step, Step>();
  for (const step of steps) {
    if (step.op === 'attention') results.set(fusionKey(step), step);
    if (step.op !== 'attentionLogSumExp') continue;
    const attention = results.get(fusionKey(step));
    if (attention !== undefined) {
      const inputs = [...step.inputs, attention.output];
      logSums.set(attention, { ...step, params: { ...step.params, waits: true }, inputs });
    }
  }
  const moved = new Set([...logSums.values()].map(({ output }) => output));
  return steps.flatMap((step) => {
    if (moved.has(step.output)) return [];
    const logSum = logSums.get(step);
    return logSum === undefined ? [step] : [step, logSum];
  });
}

/** Divides consecutive steps into lists. One piece computes all steps of a list. */
function piecesOfAttention(steps: readonly Step[]): Step[][] {
  const pieces: Step[][] = [];
  for (const step of steps) {
    const last = pieces.at(-1);
    const before = last?.[0];
    const isTogether =
      before !== undefined &&
      isAttentionStep(before) &&
      isAttentionStep(step) &&
      (step.op === 'attentionLogSumExp'
        ? step.inputs.includes(before.output)
        : !isForward(step) && fusionKey(before) === fusionKey(step));
    if (isTogether) last?.push(step);
    else pieces.push([step]);
  }
  return pieces;
}

/** The functions that compile attention for machine code. */
export const attentionPlanning: AttentionPlanning = {
  narrow: narrowAttention,
  narrowResult: narrowAttentionResult,
  withLogSums,
  piecesOf: piecesOfAttention,
  headViews,
  gathered: gatherGradients,
  workOf: attentionWorkOf,
};

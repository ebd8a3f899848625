import { attentionWorkOf } from './attention-work-of.ts';
import type { AttentionPlanning } from './attention-planning.ts';
import { type AttentionStep, isAttentionStep, isForward } from './attention-step.ts';
import type { Uses } from './fuse-products.ts';
import { headInputs } from './head-inputs.ts';
import { headViews } from './head-views.ts';
import { gatherGradients } from './gather-gradients.ts';
import type { Rewriter } from './rewriter.ts';
import { inputAt, type Step, valueAt } from './step.ts';
import { togetherAs } from './together-as.ts';

/** Attention whose weights are rounded to bf16 reads values of bf16, of which its operands are copies in f32. */
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

/** What of attention is only rounded to bf16, and not read otherwise, is stored so. */
function narrowAttentionResult(step: Step, uses: Uses, rewriter: Rewriter): Step {
  if (step.op !== 'cast' || step.dtype !== 'bf16') return step;
  const input = inputAt(step, 0);
  const made = rewriter.producer(input);
  if (made === undefined || !isAttentionStep(made) || uses.get(input) !== 1) return step;
  if (made.params.rounding !== 'bf16' || made.dtype !== 'f32') return step;
  return { ...made, dtype: 'bf16', output: step.output };
}

/**
 * Logarithms of sums are made with the attention of the same queries and keys: they stand behind it, and wait for what it waits
 * for, although they don't need it.
 */
function withLogSums(steps: readonly Step[]): readonly Step[] {
  const results = new Map<string, AttentionStep>();
  for (const step of steps) if (step.op === 'attention') results.set(togetherAs(step), step);
  const logSums = new Map<Step, Step>();
  for (const step of steps) {
    if (step.op !== 'attentionLogSumExp') continue;
    const attention = results.get(togetherAs(step));
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

/** Steps that follow each other, in lists of those that one piece makes. */
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
        : !isForward(step) && togetherAs(before) === togetherAs(step));
    if (isTogether) last?.push(step);
    else pieces.push([step]);
  }
  return pieces;
}

/** How attention becomes pieces where machine code makes it. */
export const attentionPlanning: AttentionPlanning = {
  narrow: narrowAttention,
  narrowResult: narrowAttentionResult,
  withLogSums,
  piecesOf: piecesOfAttention,
  headViews,
  gathered: gatherGradients,
  workOf: attentionWorkOf,
};

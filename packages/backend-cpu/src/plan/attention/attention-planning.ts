import type { ValueType } from '@shardwise/core/spec';
import type { AttentionWork } from '../../program/work/attention-work.ts';
import type { AttentionStep } from '../../program/attention-instructions.ts';
import type { Dataflow } from '../../program/dataflow.ts';
import type { Segment, Step } from '../../program/instruction.ts';
import type { Rewriter, Uses } from '../../program/rewriter.ts';

/** The functions that compile attention. Backends that don't compute attention themselves do not load them. */
export interface AttentionPlanning {
  /**
   * If the attention rounds its weights to bf16, makes it read the bf16 values that its f32 operands were cast from.
   */
  narrow(step: Step, rewriter: Rewriter): Step;
  /** If attention's result is only cast to bf16, makes the attention store bf16. */
  narrowResult(step: Step, uses: Uses, rewriter: Rewriter): Step;
  /** The steps, with the logarithms of sums moved behind the attention of the same queries and keys. */
  withLogSums(steps: readonly Step[]): readonly Step[];
  /** Divides consecutive steps into lists. One piece computes all steps of a list. */
  piecesOf(steps: readonly Step[]): readonly (readonly Step[])[];
  /** The steps, with one step for all gradients of an attention, if the program concatenates them. */
  gathered(
    steps: readonly Step[],
    segment: Pick<Segment, 'values' | 'outputs' | 'updates'>,
  ): readonly Step[];
  /** The ids of the results of permutes and slices that attention reads through. */
  headViews(segment: Segment): ReadonlySet<number>;
  /**
   * Describes the attention of one piece. Its operands lie in memory; queries, keys and values may be views. `bf16`
   * says whether bf16 products are supported.
   */
  workOf(
    steps: readonly AttentionStep[],
    values: readonly ValueType[],
    flow: Dataflow,
    bf16: boolean,
  ): AttentionWork;
}

import type { ValueType } from '@shardwise/core/spec';
import type { AttentionWork } from '../attention/attention-work.ts';
import type { AttentionStep } from './attention-step.ts';
import type { Dataflow } from './dataflow.ts';
import type { Uses } from './fuse-products.ts';
import type { Rewriter } from './rewriter.ts';
import type { Segment, Step } from './step.ts';

/** What compiling attention takes. Backends that don't make it by themselves do not load it. */
export interface AttentionPlanning {
  /** Attention whose weights are rounded to bf16 reads values of bf16 where there are any. */
  narrow(step: Step, rewriter: Rewriter): Step;
  /** What of attention is only rounded to bf16 is stored so. */
  narrowResult(step: Step, uses: Uses, rewriter: Rewriter): Step;
  /** The steps with logarithms of sums behind the attention that makes them too. */
  withLogSums(steps: readonly Step[]): readonly Step[];
  /** Steps that follow each other, in lists of those that one piece makes. */
  piecesOf(steps: readonly Step[]): readonly (readonly Step[])[];
  /** The steps with one step for all gradients of an attention, where the program puts them together. */
  gathered(
    steps: readonly Step[],
    segment: Pick<Segment, 'values' | 'outputs' | 'updates'>,
  ): readonly Step[];
  /** Permutes and slices that attention reads through, by the ids of what they make. */
  headViews(segment: Segment): ReadonlySet<number>;
  /** Operands lie in memory, queries, keys and values perhaps as views. `bf16` says whether there are products of it. */
  workOf(
    steps: readonly AttentionStep[],
    values: readonly ValueType[],
    flow: Dataflow,
    bf16: boolean,
  ): AttentionWork;
}

import type { PagedCache } from '../cache/paged-cache.ts';
import type { Module } from '@shardwise/core/extend';
import type { Scheduler } from '../scheduling/scheduler.ts';
import type { StepPlan } from '../scheduling/step-plan.ts';
import type { Sequence } from '../scheduling/sequence.ts';

/** A text that goes on, as far as proposing tokens needs it. */
interface OpenText {
  /** How many tokens may come at most. */
  readonly left: number;
  /**
   * What it would choose with these scores, `ahead` tokens behind the next one. Changes the scores.
   * Shape: scores [V].
   */
  guess(scores: Float32Array, tokens: readonly number[], ahead: number): number;
}

/** A step that has been planned, for whose sequences tokens are proposed. */
export interface ProposalStep {
  readonly plan: Pick<StepPlan, 'chunks' | 'copies'>;
  readonly scheduler: Pick<Scheduler, 'reserve'>;
  /** The text of a sequence. Undefined if its request has ended. */
  readonly textOf: (sequence: Sequence) => OpenText | undefined;
}

/**
 * Proposes tokens that may follow the last ones of sequences. The step computes them behind these and sees whether they
 * do. What is proposed has no influence on texts, but only on how many steps they take.
 */
export interface Proposer {
  /** The models whose weights proposals depend on. */
  readonly modules: readonly Module[];
  /** The cache of its own keys and values, in blocks of the same numbers as those of the model. */
  readonly cache: PagedCache | null;
  /**
   * Proposes tokens, and reserves places for all that it returns. It reserves before it awaits anything, because blocks of
   * a request that ends meanwhile must not be taken by another one in the same step.
   */
  propose(step: ProposalStep): Promise<ReadonlyMap<Sequence, readonly number[]>>;
  dispose(): void;
}

/** A sequence whose next token a step chooses, and how many tokens may be proposed for it. */
export interface OpenEnd {
  readonly sequence: Sequence;
  readonly text: OpenText;
  readonly wanted: number;
}

/** The sequences of a step for which tokens may be proposed, at most `most` each. */
export function openEnds({ plan, textOf }: ProposalStep, most: number): readonly OpenEnd[] {
  return plan.chunks.flatMap(({ sequence, count, isLast }) => {
    const text = textOf(sequence);
    // Only the last token of a chunk has scores, and samples of a prompt begin with different tokens.
    if (text === undefined || !isLast || count > 1 || sequence.samples > 1) return [];
    // The last token needs no keys and values, so nothing is proposed in its place.
    const wanted = Math.min(most, text.left - 1);
    return wanted > 0 ? [{ sequence, text, wanted }] : [];
  });
}

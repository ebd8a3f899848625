import type { Module } from '@shardwise/core/extend';
import type { Sequence } from '../scheduling/sequence.ts';
import { openEnds, type ProposalStep, type Proposer } from './proposer.ts';

/** The lengths of the ends of a sequence that are looked for in it. */
export interface NgramLengths {
  readonly most: number;
  readonly least: number;
}

/**
 * The tokens that followed the last n tokens where these came before: at the longest n of those asked for, and there the
 * last place. Where the tokens behind that place end, the proposal goes on with itself, as in a text that repeats
 * itself. Empty if they never came before.
 */
export function lookUp(
  tokens: readonly number[],
  count: number,
  { most, least }: NgramLengths,
): readonly number[] {
  for (let length = Math.min(most, tokens.length - 1); length >= least; length--) {
    const own = tokens.length - length;
    for (let start = own - 1; start >= 0; start--) {
      let same = 0;
      while (same < length && tokens[start + same] === tokens[own + same]) same++;
      if (same < length) continue;
      const period = own - start;
      return Array.from({ length: count }, (_, at) => tokens[start + length + (at % period)] ?? 0);
    }
  }
  return [];
}

/** Proposes what followed the same tokens earlier in the prompt or in the text (prompt lookup, Saxena 2023). */
export class PromptLookup implements Proposer {
  readonly modules: readonly Module[] = [];
  readonly cache = null;
  readonly #tokens: number;
  readonly #lengths: NgramLengths;

  constructor(tokens: number, lengths: NgramLengths) {
    this.#tokens = tokens;
    this.#lengths = lengths;
  }

  propose(step: ProposalStep): Promise<ReadonlyMap<Sequence, readonly number[]>> {
    const proposals = openEnds(step, this.#tokens).map(({ sequence, wanted }) => {
      const found = lookUp(sequence.tokens, wanted, this.#lengths);
      const places = step.scheduler.reserve(sequence, found.length);
      return [sequence, found.slice(0, places)] as const;
    });
    return Promise.resolve(new Map(proposals));
  }

  dispose(): void {}
}

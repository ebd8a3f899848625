import { DataError } from '@shardwise/core/extend';
import { Automaton, type AutomatonState } from './automaton.ts';
import type { Pattern } from './pattern.ts';
import type { ConstrainedText, TokenConstraint } from './token-constraint.ts';
import type { TokenTexts, TokenTree } from './token-texts.ts';

/** The most states whose tokens are kept, as texts come back to the same ones. */
const MAX_KEPT = 256;

/** Texts of a pattern. */
export class PatternConstraint implements TokenConstraint {
  readonly #automaton: Automaton;
  readonly #texts: TokenTexts;
  readonly #allowed = new Map<AutomatonState, readonly number[]>();

  /** Throws ConfigError for a pattern that is too large. */
  constructor(pattern: Pattern, texts: TokenTexts) {
    this.#automaton = new Automaton(pattern);
    this.#texts = texts;
  }

  begin(): ConstrainedText {
    let state = this.#automaton.start;
    const follow = (text: string): AutomatonState | null => {
      let next: AutomatonState | null = state;
      for (const each of text) next &&= this.#automaton.next(next, each.codePointAt(0) ?? 0);
      return next;
    };
    return {
      get isComplete() {
        return state.isEnd && state.accepts;
      },
      mask: (scores, endTokens) => {
        const allowed = [...this.#tokensBehind(state), ...(state.accepts ? endTokens : [])];
        if (allowed.length === 0) throw noToken();
        const kept = allowed.map((token) => [token, scores[token] ?? -Infinity] as const);
        scores.fill(-Infinity);
        for (const [token, score] of kept) scores[token] = score;
      },
      accept: (token) => {
        const text = this.#texts.textOf(token);
        if (text !== null) state = follow(text) ?? state;
      },
    };
  }

  #tokensBehind(state: AutomatonState): readonly number[] {
    const known = this.#allowed.get(state);
    if (known !== undefined) return known;
    this.#automaton.beginToken();
    const found: number[] = [];
    const walk = (from: AutomatonState, { tokens, next }: TokenTree): void => {
      found.push(...tokens);
      for (const [codePoint, below] of next) {
        const to = this.#automaton.next(from, codePoint);
        if (to !== null) walk(to, below);
      }
    };
    walk(state, this.#texts.tree);
    if (this.#allowed.size >= MAX_KEPT) this.#allowed.clear();
    this.#allowed.set(state, found);
    return found;
  }
}

function noToken(): DataError {
  return new DataError({
    asked: 'the next token of an output of a certain form',
    found: 'no token of the model that may follow',
    todo: 'Ask for a form that the tokenizer can write: it needs a token for each character',
  });
}

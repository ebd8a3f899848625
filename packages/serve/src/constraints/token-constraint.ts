/** Says which tokens a text may have. It is a value of a request, so that you can pass your own. */
export interface TokenConstraint {
  /** Begins a text. */
  begin(): ConstrainedText;
}

/** A text that follows a constraint. */
export interface ConstrainedText {
  /** Whether nothing may follow what was accepted, not even the end token. The text then ends. */
  readonly isComplete: boolean;
  /**
   * Makes the scores of tokens that may not come next minus infinity. End tokens may come where the text may end. Throws
   * DataError if none may come. Shape: scores [V].
   */
  mask(scores: Float32Array, endTokens: ReadonlySet<number>): void;
  /** Notes the token that was chosen. */
  accept(token: number): void;
}

/** For algorithms that may begin before all ranks are known to have made the call. */
export interface Agreement {
  /** Nothing is written to the buffer before this settles; what this rank contributes goes at once. */
  readonly agreed: Promise<void>;
}

export const agreedBefore: Agreement = { agreed: Promise.resolve() };

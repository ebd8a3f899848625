/** What becomes of a node that a realization is to compute. */
export interface Outcome {
  /** It has its value. */
  readonly settled?: () => void;
  /** It will never have one, as its run failed before anything was changed. */
  readonly dropped?: () => void;
}

/** Updates of which either all are made or none, as those of an optimizer's step. */
export interface UpdateGroup {
  readonly dropped: () => void;
}

/** A node that waits for a realization, and what becomes of it. */
export interface PendingWork {
  readonly outcome: Outcome;
  readonly group: UpdateGroup | null;
  /**
   * How many pieces of work have replaced each other, including this one. It is the number of steps that are
   * not computed yet.
   */
  readonly depth: number;
}

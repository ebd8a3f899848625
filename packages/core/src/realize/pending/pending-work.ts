/** Callbacks for a node that a realization is to compute. */
export interface Outcome {
  /** Called when the node has its value. */
  readonly settled?: () => void;
  /** Called when the node will never have a value, because its run failed before anything was changed. */
  readonly dropped?: () => void;
}

/** A group of updates of which either all are made or none, such as the updates of an optimizer's step. */
export interface UpdateGroup {
  readonly dropped: () => void;
}

/** The state of a node that waits for a realization. */
export interface PendingWork {
  readonly outcome: Outcome;
  readonly group: UpdateGroup | null;
  /**
   * The number of pieces of pending work of which each replaced the one before, including this one. It is the number of
   * steps that are not computed yet.
   */
  readonly depth: number;
}

/** One stretch of work of this rank. */
export interface TimelineEvent {
  readonly name: string;
  /** `stage`: one action of a pipeline's schedule, as `1F0`, without waiting for messages; others lie within it. */
  readonly category: 'compute' | 'collective' | 'transfer' | 'data' | 'graph' | 'stage';
  /** Milliseconds since the epoch, with a fraction (performance.timeOrigin + performance.now()). */
  readonly startMs: number;
  readonly durationMs: number;
  readonly detail?: string;
}

/** Cumulative since the rank began. Times are milliseconds of this rank's thread. */
export interface Statistics {
  /** Time in compiled programs. */
  readonly computeMs: number;
  /** Waiting for collectives and transfers that compute did not hide. */
  readonly communicationMs: number;
  /** Collecting the graph, its signature and the plan's look-up. */
  readonly graphMs: number;
  /** Making plans and compiling programs. */
  readonly compileMs: number;
  readonly plansMade: number;
  /** Those of the plans made that take any sizes: sizes that were seen to vary, or declared to. */
  readonly sizedPlansMade: number;
  /** Plans that made room for others: `planLimit` are kept. */
  readonly plansDropped: number;
  readonly plansRun: number;
  readonly programsCompiled: number;
  /** Compiled programs that no plan runs any more. */
  readonly programsDisposed: number;
  readonly collectives: number;
  /**
   * Bytes of the collectives' inputs or outputs, whichever are more: for gathers and reductions to parts
   * those of the whole.
   */
  readonly collectiveBytes: number;
}

/** A size of a program for which one plan serves several numbers. */
export interface VaryingSize {
  /** Where it stands, as in `dim 1 of a tensor of shape [8, 240]`. */
  readonly of: string;
  /** The line of user code that made what it stands in; null where it is not known. */
  readonly line: string | null;
  /** The smallest and the largest number that it had when the plan was made. */
  readonly from: number;
  readonly to: number;
  /** The largest number that the plan takes. */
  readonly max: number;
  /** Whether `dynamic` declared it; else it was seen to vary. */
  readonly isDeclared: boolean;
}

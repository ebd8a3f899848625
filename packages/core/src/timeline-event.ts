/** One stretch of work of this rank. */
export interface TimelineEvent {
  readonly name: string;
  readonly category: 'compute' | 'collective' | 'transfer' | 'data' | 'graph';
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

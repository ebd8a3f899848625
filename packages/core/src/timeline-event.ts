/** One period of work of this rank. */
export interface TimelineEvent extends EventFacts {
  readonly name: string;
  /**
   * `stage` is one action of a pipeline's schedule, such as `1F0`, without waiting for messages. Other events
   * lie within it.
   */
  readonly category: 'compute' | 'collective' | 'transfer' | 'data' | 'graph' | 'stage';
  /** Milliseconds since the epoch, with a fraction (performance.timeOrigin + performance.now()). */
  readonly startMs: number;
  readonly durationMs: number;
}

/** What is known of an event beside its time. */
export interface EventFacts {
  readonly detail?: string;
  /** The bytes of a collective's inputs or outputs, whichever are more, or of a transfer. */
  readonly bytes?: number;
  /** The axis of the mesh on which ranks have met in a collective. */
  readonly axis?: string;
  /** The number of these ranks. */
  readonly ranks?: number;
}

/** Counters of this rank since it began. Times are milliseconds of this rank's thread. */
export interface Statistics {
  /** The time in compiled programs. */
  readonly computeMs: number;
  /** The time of waiting for collectives and transfers that computation did not hide. */
  readonly communicationMs: number;
  /** The time for collecting the graph and its signature, and for finding its plan. */
  readonly graphMs: number;
  /** The time for making plans and compiling programs. */
  readonly compileMs: number;
  readonly plansMade: number;
  /** The plans among these that work for any sizes, because sizes varied or were declared to vary. */
  readonly sizedPlansMade: number;
  /** Plans that were dropped because only `planLimit` plans are kept. */
  readonly plansDropped: number;
  readonly plansRun: number;
  readonly programsCompiled: number;
  /** Compiled programs that were disposed of because no plan runs them any more. */
  readonly programsDisposed: number;
  readonly collectives: number;
  /**
   * The bytes of the inputs or outputs of collectives, whichever have more. For an all-gather or a reduce-scatter,
   * these are the bytes of the whole.
   */
  readonly collectiveBytes: number;
}

/** A size of a program that may have several values in one plan. */
export interface VaryingSize {
  /** The place of the size, such as `dim 1 of a tensor of shape [8, 240]`. */
  readonly of: string;
  /** The line of user code that made this tensor. Null if it is not known. */
  readonly line: string | null;
  /** The smallest value that was seen when the plan was made. */
  readonly from: number;
  /** The largest value that was seen when the plan was made. */
  readonly to: number;
  /** The largest value that the plan supports. */
  readonly max: number;
  /** Whether `dynamic` declared the size. Otherwise it was seen to vary. */
  readonly isDeclared: boolean;
}

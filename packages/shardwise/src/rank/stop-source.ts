/** Whether the user has asked for an end. */
export interface StopSource {
  readonly requested: boolean;
  /** Whether to stop after update `step`; the same answer on every rank. */
  stopsAfter(step: number): boolean | Promise<boolean>;
}

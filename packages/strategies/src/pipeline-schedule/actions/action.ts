/** The kinds of computations of a stage for one microbatch. */
export type ComputeKind = 'forward' | 'backward' | 'inputGradient' | 'weightGradient';

/** A message between stages, as either end sees it. */
export type TransferKind =
  | 'sendActivation'
  | 'receiveActivation'
  | 'sendGradient'
  | 'receiveGradient';

/** An operation on the parameters of a stage, once for all microbatches. */
export type StageKind = 'unshard' | 'reshard' | 'reduceGradient';

/**
 * A stage computes one microbatch. `inputGradient` computes the gradients of the stage's inputs,
 * `weightGradient` those of its parameters, and `backward` both.
 */
export interface ComputeAction {
  readonly kind: ComputeKind;
  readonly stage: number;
  readonly microbatch: number;
}

/** A forward of one stage and a backward of another one that a rank may run at the same time. */
export interface OverlapAction {
  readonly kind: 'overlap';
  readonly actions: readonly [ComputeAction, ComputeAction];
}

/** One message. `stage` is the stage at this end, `peer` the stage at the other end. */
export interface TransferAction {
  readonly kind: TransferKind;
  readonly stage: number;
  readonly peer: number;
  readonly microbatch: number;
}

/** The parameters of a stage are gathered or dropped, or their gradients are summed over data-parallel ranks. */
export interface StageAction {
  readonly kind: StageKind;
  readonly stage: number;
}

/** An action of a schedule. */
export type ScheduledAction = ComputeAction | OverlapAction;

/** An action that a rank executes: an action of the schedule, a message, or the gathering of parameters. */
export type Action = ScheduledAction | TransferAction | StageAction;

/** What a stage computes of one microbatch. */
export type ComputeKind = 'forward' | 'backward' | 'inputGradient' | 'weightGradient';

/** What crosses from stage to stage, seen from either end. */
export type TransferKind =
  | 'sendActivation'
  | 'receiveActivation'
  | 'sendGradient'
  | 'receiveGradient';

/** What is done to the parameters of a stage, for all microbatches at once. */
export type StageKind = 'unshard' | 'reshard' | 'reduceGradient';

/**
 * A stage computes one microbatch. `inputGradient` makes the gradients of what the stage took, `weightGradient` those
 * of its parameters; `backward` is both at once.
 */
export interface ComputeAction {
  readonly kind: ComputeKind;
  readonly stage: number;
  readonly microbatch: number;
}

/** A forward of one stage and a backward of another that a rank may run at the same time. */
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

/** Parameters of a stage are gathered, dropped again, or their gradients are summed over data-parallel ranks. */
export interface StageAction {
  readonly kind: StageKind;
  readonly stage: number;
}

/** What a schedule consists of: it says when what is computed. */
export type ScheduledAction = ComputeAction | OverlapAction;

/** What a rank executes: a schedule's actions with the messages and the gathering between them. */
export type Action = ScheduledAction | TransferAction | StageAction;

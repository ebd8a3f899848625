import type { SentDtype } from './sent-gradients.ts';
import type { ServedJob, UpdateRecipe } from './served-job.ts';
import type { ShardHead } from './shard-head.ts';
import type { TableRequest } from './table/table-request.ts';

interface FromWorker {
  /** Which range of keys: a server may keep a copy of another one's. */
  readonly shard: number;
  readonly worker: number;
  /** Which start of the worker it comes from. */
  readonly session: number;
}

export interface JoinRequest {
  readonly kind: 'join';
  readonly shard: number;
  readonly worker: number;
  readonly job: ServedJob;
}

/** Arrays: the values of each parameter. */
export interface InitialiseRequest extends FromWorker {
  readonly kind: 'initialise';
}

/** Gradients of the worker's next push, which it sends while it computes others. Arrays: those of `parameters`. */
export interface PartRequest extends FromWorker {
  readonly kind: 'part';
  /** Counts the parts of a worker. */
  readonly number: number;
  /** Places of parameters in the range. */
  readonly parameters: readonly number[];
  readonly dtype: SentDtype;
}

/**
 * Arrays: the gradients of the parameters whose `present` is true, but for those of `parts`; for elastic averaging, the values
 * of all.
 */
export interface PushRequest extends FromWorker {
  readonly kind: 'push';
  /** Counts the pushes of a worker from 1: one that comes twice counts once. */
  readonly sequence: number;
  /** Which step the gradient belongs to, as the answer before has said. */
  readonly round: number;
  readonly recipe: UpdateRecipe | null;
  readonly present: readonly boolean[];
  /** The numbers of parts that were sent before, and belong to it. */
  readonly parts: readonly number[];
  /** Of the arrays. */
  readonly dtype: SentDtype;
}

/** Is answered with the values of `parameters`, as they were when the worker's last push was answered. */
export interface PullRequest extends FromWorker {
  readonly kind: 'pull';
  /** Places of parameters in the range. */
  readonly parameters: readonly number[];
}

export interface LeaveRequest extends FromWorker {
  readonly kind: 'leave';
}

/** What workers ask of a range, and what changes it. */
export type ServerRequest =
  | JoinRequest
  | InitialiseRequest
  | PushRequest
  | PullRequest
  | LeaveRequest;

/** A change that the server of a range has made, for the one that has a copy. Arrays: those of the request. */
export interface ReplicateRequest {
  readonly kind: 'replicate';
  readonly shard: number;
  /** Counts who has been the server of the range. */
  readonly term: number;
  readonly request: ServerRequest;
}

/** All of a range, for the server that is to have a copy. Arrays: as in a snapshot. */
export interface AdoptRequest {
  readonly kind: 'adopt';
  readonly shard: number;
  readonly term: number;
  readonly head: ShardHead;
}

/** The server of a range does not answer: the one that has a copy takes its place. */
export interface PromoteRequest {
  readonly kind: 'promote';
  readonly shard: number;
}

/** What a server is asked, by workers and by other servers. */
export type ShardRequest =
  | ServerRequest
  | PartRequest
  | ReplicateRequest
  | AdoptRequest
  | PromoteRequest;

export type AnyRequest = ShardRequest | TableRequest;

import type { SentDtype } from './arrays.ts';
import type { ServedJob, UpdateRecipe } from './job.ts';
import type { ShardHead } from './shard-head.ts';

interface FromWorker {
  /** The range of keys. A server may also have a copy of another server's range. */
  readonly shard: number;
  readonly worker: number;
  /** The start of the worker that sends the request. Each join begins a new one. */
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

/**
 * Gradients of the worker's next push, which it sends while it computes others. Arrays: the gradients of `parameters`.
 */
export interface PartRequest extends FromWorker {
  readonly kind: 'part';
  /** The number of the part. A worker counts its parts. */
  readonly number: number;
  /** The places of the parameters in the range. */
  readonly parameters: readonly number[];
  readonly dtype: SentDtype;
}

/**
 * Arrays: the gradients of the parameters whose `present` is true, without those that `parts` have brought. For elastic
 * averaging, the values of all parameters.
 */
export interface PushRequest extends FromWorker {
  readonly kind: 'push';
  /** The number of the push. A worker counts its pushes from 1, so that one that arrives twice counts once. */
  readonly sequence: number;
  /** The step that the gradient belongs to. The previous answer has told it. */
  readonly step: number;
  readonly recipe: UpdateRecipe | null;
  readonly present: readonly boolean[];
  /** The numbers of the parts of this push that were sent before. */
  readonly parts: readonly number[];
  /** The dtype of the arrays. */
  readonly dtype: SentDtype;
}

/** The answer has the values of `parameters` as they were when the worker's last push was answered. */
export interface PullRequest extends FromWorker {
  readonly kind: 'pull';
  /** The places of the parameters in the range. */
  readonly parameters: readonly number[];
}

export interface LeaveRequest extends FromWorker {
  readonly kind: 'leave';
}

/** The requests by which workers read or change a range. */
export type ServerRequest =
  | JoinRequest
  | InitialiseRequest
  | PushRequest
  | PullRequest
  | LeaveRequest;

/**
 * A change that the server of a range has made, which it passes on to the server with the copy. Arrays: those of the
 * request.
 */
export interface ReplicateRequest {
  readonly kind: 'replicate';
  readonly shard: number;
  /** The number of servers that the range has had one after the other, to recognise requests of an earlier one. */
  readonly term: number;
  readonly request: ServerRequest;
}

/** The whole contents of a range, for the server that will have a copy. Arrays: as in a snapshot. */
export interface AdoptRequest {
  readonly kind: 'adopt';
  readonly shard: number;
  readonly term: number;
  readonly head: ShardHead;
}

/** Tells the server with the copy to take over the range, because the range's server does not answer. */
interface PromoteRequest {
  readonly kind: 'promote';
  readonly shard: number;
}

/** The requests to a range, by workers and by other servers. */
export type ShardRequest =
  | ServerRequest
  | PartRequest
  | ReplicateRequest
  | AdoptRequest
  | PromoteRequest;

/** A table as all workers must describe it. */
export interface TableSpec {
  /** The name begins with a letter or a digit, and consists of letters, digits, - and _. */
  readonly name: string;
  readonly rows: number;
  readonly dims: number;
  /** The standard deviation of the initial values, which are normal with mean 0. */
  readonly standardDeviation: number;
  readonly seed: number;
  readonly optimizer: 'SGD' | 'Adagrad';
  /** The term in Adagrad's denominator. */
  readonly epsilon: number;
}

export interface OpenTableRequest {
  readonly kind: 'openTable';
  readonly shard: number;
  readonly table: TableSpec;
}

/** Arrays: numbers of rows (i32), ascending. */
interface PullRowsRequest {
  readonly kind: 'pullRows';
  readonly shard: number;
  readonly name: string;
}

/** Arrays: numbers of rows (i32), ascending, each once, and their gradients (f32). */
export interface PushRowsRequest {
  readonly kind: 'pushRows';
  readonly shard: number;
  readonly name: string;
  /** The sender of the push. Pushes are counted by sender, so that one that arrives twice counts once. */
  readonly client: string;
  readonly sequence: number;
  readonly lr: number;
}

export type TableRequest = OpenTableRequest | PullRowsRequest | PushRowsRequest;

export type AnyRequest = ShardRequest | TableRequest;

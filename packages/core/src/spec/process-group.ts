import type { DType } from './dtype.ts';

/** Memory and its dtype. `bytes.byteLength` is a multiple of the dtype's size. */
export interface TypedBytes {
  readonly bytes: Uint8Array;
  readonly dtype: DType;
}

/** How a reduction combines the values of the ranks. It goes in rank order, so every rank gets the same bits. */
export type ReduceOp =
  | 'sum'
  | 'avg'
  | 'product'
  | 'min'
  | 'max'
  | 'and'
  | 'or'
  | 'xor'
  /** The sum of the values after each rank has multiplied its own by the factor `premultipliedSum`. */
  | { readonly premultipliedSum: number };

/** The settings of the optimizer steps that a rank has made so far. */
export interface StepSettings {
  /** The number of steps, from 1. Ranks compare the settings of equally many steps only. */
  readonly steps: number;
  /** An integer from 0 below 2^32, which follows from the settings of all these steps. */
  readonly hash: number;
  /**
   * Lists the settings of the last step, as `clipGradNorm(): maxNorm 1; AdamW.step(): lr 0.001; betas [0.9, 0.999]`.
   * It is only called for errors.
   */
  describe(): string;
}

/** What a call is, beyond its operation and sizes. Ranks must agree on it as on the operation. */
export interface CallIdentity {
  /** An integer from 1 below 2^32. Calls with different numbers do not belong together. */
  readonly hash: number;
  /** The steps that the program had made when it made the call. Absent: nothing is known of them. */
  readonly stepsBefore?: StepSettings | undefined;
  /** The steps that the program has made when the call is issued. Absent: nothing is known of them. */
  readonly steps?: StepSettings | undefined;
  /** Says what the call is, and where the program made it. It is only called for errors. */
  describe(): string;
}

/** Options of one call. */
export interface CallOptions {
  /** Milliseconds after which the call rejects with a CollectiveTimeoutError that names the missing ranks. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /**
   * The number of the backward pass that a collective belongs to. It counts from 1 since the last update. Ranks must
   * agree on it in the same way as on the operation, so that gradients of different passes are not mixed. send and
   * recv do not use it.
   */
  readonly pass?: number;
  /**
   * What the call is. A call with an identity is issued at once, because whoever makes it knows its place in the
   * program of the rank (`orderCalls`). Default: nothing beyond the operation and its sizes.
   */
  readonly identity?: CallIdentity;
}

/** Issues a call at its place in the order of a rank's program. */
export type CallOrder = (issue: () => Promise<void>) => Promise<void>;

/** Options of calls that may read from another buffer than the one for the result. */
export interface InputOptions extends CallOptions {
  /**
   * The memory that the call reads its input from, and does not change. It has the dtype and size of the buffer.
   * Without it, the call is in place. Some ranks may give it and others not.
   */
  readonly input?: TypedBytes;
}

/**
 * W = size. Every rank calls the same operations in the same order, with the same sizes and dtypes.
 * If an operation has an input and an output, the shorter one may be this rank's part of the longer one.
 * Buffers that overlap in any other way are refused with ConfigError.
 */
export interface Collectives {
  /** Every rank gets the reduction. */
  allReduce(buffer: TypedBytes, op: ReduceOp, options?: InputOptions): Promise<void>;
  /** Shape: input [n] -> output [W*n], in rank order. */
  allGather(input: TypedBytes, output: TypedBytes, options?: CallOptions): Promise<void>;
  /** Shape: input [W*n] -> output [n]: this rank's part of the reduction. */
  reduceScatter(
    input: TypedBytes,
    output: TypedBytes,
    op: ReduceOp,
    options?: CallOptions,
  ): Promise<void>;
  /**
   * Shape: input [W*n] -> output [W*n]; part r goes to rank r. If the parts have different lengths, the splits give
   * the elements of each.
   */
  allToAll(
    input: TypedBytes,
    output: TypedBytes,
    options?: CallOptions & {
      readonly inputSplits?: readonly number[];
      readonly outputSplits?: readonly number[];
    },
  ): Promise<void>;
  /** Every rank gets root's values. Only root reads `input`. */
  broadcast(buffer: TypedBytes, root: number, options?: InputOptions): Promise<void>;
  /** Root's buffer gets the reduction. The buffers of the other ranks are left as they are. */
  reduce(buffer: TypedBytes, root: number, op: ReduceOp, options?: InputOptions): Promise<void>;
  /** Shape: input [n] -> on root, output [W*n]. */
  gather(
    input: TypedBytes,
    output: TypedBytes | undefined,
    root: number,
    options?: CallOptions,
  ): Promise<void>;
  /** Shape: on root, input [W*n] -> output [n]. */
  scatter(
    input: TypedBytes | undefined,
    output: TypedBytes,
    root: number,
    options?: CallOptions,
  ): Promise<void>;
  barrier(options?: CallOptions): Promise<void>;
}

/** Messages between two ranks. */
export interface PointToPoint {
  /** Messages with the same tag from one rank to another arrive in order. `to` is a rank of this group. */
  send(
    buffer: TypedBytes,
    to: number,
    options?: CallOptions & { readonly tag?: number },
  ): Promise<void>;
  recv(
    buffer: TypedBytes,
    from: number,
    options?: CallOptions & { readonly tag?: number },
  ): Promise<void>;
}

/**
 * A set of ranks that communicate. Calls may be issued without awaiting earlier ones. They run in the order of
 * issue. A buffer belongs to the call until its promise settles.
 */
export interface ProcessGroup extends Collectives, PointToPoint {
  /** The version of this interface that the object implements (docs/decisions/0030-versions-of-interfaces.md). */
  readonly specificationVersion: 1;
  readonly rank: number;
  readonly size: number;
  /**
   * A collective: ranks with the same colour form a group, ordered by key and then by rank. A rank with an
   * undefined colour is in no group.
   */
  split(
    color: number | undefined,
    key: number,
    options?: CallOptions,
  ): Promise<ProcessGroup | undefined>;
  /**
   * From now on, `order` issues the calls of this group, and of all groups that have a split in common with it, unless
   * they have an identity. With null, the calls of this group, and of groups that are split from it later, are issued
   * as they are made. Groups without this method issue all calls as they are made.
   */
  orderCalls?(order: CallOrder | null): void;
  /** With a `reason`, all pending calls on every rank of the group fail. Without one, the group is released. */
  close(reason?: Error): void;
}

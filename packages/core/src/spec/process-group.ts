import type { DType } from './dtype.ts';

/** Memory and its dtype. `bytes.byteLength` is a multiple of the dtype's size. */
export interface TypedBytes {
  readonly bytes: Uint8Array;
  readonly dtype: DType;
}

/** Reductions add in rank order, so every rank gets the same bits. */
export type ReduceOp =
  | 'sum'
  | 'avg'
  | 'product'
  | 'min'
  | 'max'
  | 'and'
  | 'or'
  | 'xor'
  /** Each rank's values times `factor`, then the sum. */
  | { readonly premultipliedSum: number };

/** Limits of one call. */
export interface CallOptions {
  /** Milliseconds after which the call rejects with a CollectiveTimeoutError that names the missing ranks. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /**
   * The number of the backward pass since the last update that a collective belongs to, from 1. Ranks must
   * agree on it as on the operation, so that gradients of different passes are not mixed. It is not for send
   * and recv.
   */
  readonly pass?: number;
}

/** Options of calls that may read from another buffer than the one for the result. */
export interface InputOptions extends CallOptions {
  /**
   * The call reads its input here and does not change it. Its dtype and size are those of the buffer. Without
   * it, the call is in place. Ranks may differ in this.
   */
  readonly input?: TypedBytes;
}

/**
 * W = size. Every rank calls the same operations in the same order, with the same sizes and dtypes.
 * Of an operation with input and output, the shorter one may be this rank's part of the longer one;
 * buffers that share other bytes are refused with ConfigError.
 */
export interface Collectives {
  /** Everyone gets the reduction. */
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
  /** Shape: input [W*n] -> output [W*n]; part r goes to rank r. Splits in elements where parts differ. */
  allToAll(
    input: TypedBytes,
    output: TypedBytes,
    options?: CallOptions & {
      readonly inputSplits?: readonly number[];
      readonly outputSplits?: readonly number[];
    },
  ): Promise<void>;
  /** Everyone gets root's values; only root reads `input`. */
  broadcast(buffer: TypedBytes, root: number, options?: InputOptions): Promise<void>;
  /** Root's buffer gets the reduction, the others' are left as they are. */
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
  /** Messages between two ranks with one tag arrive in order; `to` is a rank of this group. */
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
  /** With a `reason`, all pending calls on every rank of the group fail. Without one, the group is released. */
  close(reason?: Error): void;
}

import type { CallOptions, ProcessGroup, TypedBytes } from '@shardwise/core/spec';

/** One message to or from another rank. */
export interface SendOrRecv {
  readonly operation: 'send' | 'recv';
  readonly buffer: TypedBytes;
  readonly peer: number;
  /** Default: 0. */
  readonly tag?: number;
}

/**
 * Issues all messages before it awaits any, so their order does not matter, as in PyTorch's batch_isend_irecv.
 * Each stays a separate message, so the receiver need not use a batch.
 */
export async function batchSendRecv(
  group: ProcessGroup,
  messages: readonly SendOrRecv[],
  options?: CallOptions,
): Promise<void> {
  const calls = messages.map(({ operation, buffer, peer, tag = 0 }) =>
    group[operation](buffer, peer, { ...options, tag }),
  );
  await Promise.all(calls);
}

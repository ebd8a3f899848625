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
 * Issues all of them before it awaits any, so that their order does not matter: PyTorch's
 * batch_isend_irecv. Each stays a message of its own, as its receiver may take it without a batch.
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

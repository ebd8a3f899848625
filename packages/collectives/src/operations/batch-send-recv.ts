import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import type { CallOptions, ProcessGroup, TypedBytes } from '@shardwise/core/spec';
import { callRules } from '../call/call-options.ts';
import { requireGroup } from '../call/require-group.ts';

/** One message to or from another rank. */
export interface SendOrRecv {
  readonly operation: 'send' | 'recv';
  readonly buffer: TypedBytes;
  readonly peer: number;
  /** Default: 0. */
  readonly tag?: number;
}

const messageRules: OptionRules<SendOrRecv> = {
  operation: option.required(option.oneOf('send', 'recv')),
  buffer: option.required(option.object('a buffer')),
  peer: option.required(option.number),
  tag: option.number,
};
const batchRules = {
  messages: option.required(option.listOf(option.object<SendOrRecv>('a message'))),
};

/**
 * Issues all messages before it awaits any, so their order does not matter, as in PyTorch's batch_isend_irecv.
 * Each stays a separate message, so the receiver need not use a batch. Throws ConfigError before it issues any.
 */
export async function batchSendRecv(
  group: ProcessGroup,
  messages: readonly SendOrRecv[],
  options?: CallOptions,
): Promise<void> {
  requireGroup('batchSendRecv', group);
  checkOptions('batchSendRecv', { messages }, batchRules);
  checkOptions('batchSendRecv', options, callRules);
  for (const [index, message] of messages.entries()) {
    checkOptions(`batchSendRecv, message ${index}`, message, messageRules);
  }
  const calls = messages.map(({ operation, buffer, peer, tag = 0 }) =>
    group[operation](buffer, peer, { ...options, tag }),
  );
  await Promise.all(calls);
}

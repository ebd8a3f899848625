import type { ProcessGroup } from '@shardwise/core/spec';
import { encodeObject } from './object-codec.ts';
import {
  blockOf,
  checkLength,
  hasRest,
  objectTransfer,
  outgoingOf,
  restOf,
  type ObjectTransferOptions,
} from './object-message.ts';

/**
 * Sends plain data to a rank that calls `recvObject`. Objects of more than half a KiB take two messages. If the
 * value is not plain data, it rejects with ConfigError, and the receiver's call rejects with CollectiveError.
 */
export async function sendObject(
  group: ProcessGroup,
  value: unknown,
  to: number,
  options?: ObjectTransferOptions,
): Promise<void> {
  const object = objectTransfer('sendObject', group, options);
  const own = outgoingOf(() => {
    const bytes = encodeObject(value);
    checkLength(group.rank, bytes.byteLength, object);
    return bytes;
  });
  const sent = [group.send({ bytes: blockOf(own), dtype: 'u8' }, to, object.call)];
  if (hasRest(own.bytes.byteLength)) {
    sent.push(group.send({ bytes: restOf(own.bytes), dtype: 'u8' }, to, object.call));
  }
  await Promise.all(sent);
  if (own.error !== undefined) throw own.error;
}

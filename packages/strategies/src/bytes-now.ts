import { currentSession, type Tensor } from '@shardwise/core/extend';

/** Of a value that has been computed, where they can be seen without waiting. */
export function bytesNow({ node: { value } }: Tensor): Uint8Array | undefined {
  if (value?.kind === 'host') return value.bytes;
  if (value?.kind === 'device') return currentSession().backend.map(value.storage.buffer);
  return undefined;
}

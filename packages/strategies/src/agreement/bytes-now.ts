import { currentSession, type Tensor } from '@shardwise/core/extend';

/** Returns the bytes of a value that has been computed. Undefined if the device cannot be read synchronously. */
export function bytesNow({ node: { value } }: Tensor): Uint8Array | undefined {
  if (value?.kind === 'host') return value.bytes;
  if (value?.kind === 'device') return currentSession().backend.map(value.storage.buffer);
  return undefined;
}

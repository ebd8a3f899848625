import { currentSession, type Tensor } from '@shardwise/core/extend';

/** The bytes of a value that has been computed; undefined where a device cannot be read at once. */
export function bytesNow({ node: { value } }: Tensor): Uint8Array | undefined {
  if (value?.kind === 'host') return value.bytes;
  if (value?.kind === 'device') return currentSession().backend.map(value.storage.buffer);
  return undefined;
}

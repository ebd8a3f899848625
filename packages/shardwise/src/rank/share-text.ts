import type { ProcessGroup } from '@shardwise/core';

/** Rank 0's text on every rank; also the moment from which on all know that it is there. */
export async function shareText(group: ProcessGroup, text: string): Promise<string> {
  const encoded = new TextEncoder().encode(text);
  const length = Int32Array.of(encoded.byteLength);
  await group.broadcast({ bytes: new Uint8Array(length.buffer), dtype: 'i32' }, 0);
  const bytes = group.rank === 0 ? encoded : new Uint8Array(length[0] ?? 0);
  await group.broadcast({ bytes, dtype: 'u8' }, 0);
  return new TextDecoder().decode(bytes);
}

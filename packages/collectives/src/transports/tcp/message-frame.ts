import type { FrameLimits } from '../../wire/frame-header.ts';

export const messageKinds = {
  message: 1,
  /** The sender leaves. Nothing comes after this. */
  goodbye: 2,
  /** The sender has ended the transport. The body says why. */
  abort: 3,
  heartbeat: 4,
} as const;

const MAX_CAUSE_BYTES = 4096;

/**
 * What the side that was connected to may send. These are messages, whose bodies go straight into their receivers'
 * memory.
 */
export const messageLimits: FrameLimits = new Map([
  [messageKinds.message, Number.MAX_SAFE_INTEGER],
  [messageKinds.goodbye, 0],
  [messageKinds.abort, MAX_CAUSE_BYTES],
]);

/** What the side that connects may send. It is not held up by messages that nobody takes. */
export const controlLimits: FrameLimits = new Map([
  [messageKinds.goodbye, 0],
  [messageKinds.abort, MAX_CAUSE_BYTES],
]);

export const heartbeatLimits: FrameLimits = new Map([[messageKinds.heartbeat, 0]]);

/** The reason as UTF-8 text, cut to MAX_CAUSE_BYTES. */
export function encodeCause(reason: string): Uint8Array {
  const bytes = new Uint8Array(MAX_CAUSE_BYTES);
  return bytes.subarray(0, new TextEncoder().encodeInto(reason, bytes).written);
}

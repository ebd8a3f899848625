import type { FrameLimits } from '../../wire/frame-header.ts';

export const messageKinds = {
  message: 1,
  /** Its sender leaves; nothing comes after it. */
  goodbye: 2,
  /** Its sender has ended the transport; the body says why. */
  abort: 3,
  heartbeat: 4,
} as const;

const MAX_CAUSE_BYTES = 4096;

/** What goes from the side that was connected to: messages, straight into their receivers' memory. */
export const messageLimits: FrameLimits = new Map([
  [messageKinds.message, Number.MAX_SAFE_INTEGER],
  [messageKinds.goodbye, 0],
  [messageKinds.abort, MAX_CAUSE_BYTES],
]);

/** What goes the other way, past messages that nobody takes. */
export const controlLimits: FrameLimits = new Map([
  [messageKinds.goodbye, 0],
  [messageKinds.abort, MAX_CAUSE_BYTES],
]);

export const heartbeatLimits: FrameLimits = new Map([[messageKinds.heartbeat, 0]]);

/** Text in at most `MAX_CAUSE_BYTES`. */
export function encodeCause(reason: string): Uint8Array {
  const bytes = new Uint8Array(MAX_CAUSE_BYTES);
  return bytes.subarray(0, new TextEncoder().encodeInto(reason, bytes).written);
}

import { protocolError } from '../wire/wire-error.ts';
import type { FrameLimits } from '../wire/frame-header.ts';
import { MAX_AWAITED_KEYS, MAX_KEY_BYTES, MAX_VALUE_BYTES } from './store-limits.ts';

/** The kinds of frames that clients send to a store's server. The frame's tag is the number of the call. */
export const requestKinds = {
  set: 16,
  get: 17,
  add: 18,
  compareSet: 19,
  setIfAbsent: 20,
  wait: 21,
  delete: 22,
  /** Cancels the call with the frame's tag, which waits for keys. */
  cancel: 23,
} as const;

export type RequestName = keyof typeof requestKinds;

export const replyKinds = { value: 32, refused: 33 } as const;

const SLACK_BYTES = 4096;

/** The length of the longest body, which has two values and a key, or many keys. */
const MAX_BODY_BYTES = Math.max(
  2 * MAX_VALUE_BYTES + SLACK_BYTES,
  MAX_AWAITED_KEYS * (MAX_KEY_BYTES + 4) + SLACK_BYTES,
);

export const requestLimits: FrameLimits = new Map(
  Object.values(requestKinds).map((kind) => [kind, MAX_BODY_BYTES]),
);

export const replyLimits: FrameLimits = new Map(
  Object.values(replyKinds).map((kind) => [kind, MAX_BODY_BYTES]),
);

export function requestName(kind: number): RequestName | undefined {
  const isName = (name: string): name is RequestName => name in requestKinds;
  return Object.keys(requestKinds)
    .filter(isName)
    .find((name) => requestKinds[name] === kind);
}

/** Encodes a list of byte strings, each after its length as u32. */
export function encodeParts(parts: readonly Uint8Array[]): Uint8Array {
  const byteLength = parts.reduce((sum, part) => sum + 4 + part.byteLength, 0);
  const body = new Uint8Array(byteLength);
  const view = new DataView(body.buffer);
  let offset = 0;
  for (const part of parts) {
    view.setUint32(offset, part.byteLength, true);
    body.set(part, offset + 4);
    offset += 4 + part.byteLength;
  }
  return body;
}

/** The byte strings of a body, as views of it. Throws CollectiveError if the lengths do not add up. */
export function decodeParts(body: Uint8Array): readonly Uint8Array[] {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const parts: Uint8Array[] = [];
  let offset = 0;
  while (offset < body.byteLength) {
    const start = offset + 4;
    const length = start <= body.byteLength ? view.getUint32(offset, true) : Infinity;
    if (start + length > body.byteLength) {
      throw protocolError(`part ${parts.length} of its body reaches beyond its end`);
    }
    if (parts.length > MAX_AWAITED_KEYS) {
      throw protocolError(`its body has more than ${MAX_AWAITED_KEYS} parts`);
    }
    parts.push(body.subarray(start, start + length));
    offset = start + length;
  }
  return parts;
}

export const encodeText = (text: string): Uint8Array => new TextEncoder().encode(text);
export const decodeText = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

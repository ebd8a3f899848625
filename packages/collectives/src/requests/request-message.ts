import {
  CollectiveError,
  type ErrorParts,
  RefusedError,
  ShardwiseError,
} from '@shardwise/core/spec';
import { HEADER_BYTES, writeHeader, type FrameLimits } from '../wire/frame-header.ts';
import { protocolError } from '../wire/wire-error.ts';
import { LEAST_SHARED_BYTES, type MessageMemory } from './message-memory.ts';

/**
 * The kinds of frames. The tag of a frame is the number of its call. `share` asks for memory that both sides can use,
 * and `release` says that an answer in that memory has been read.
 */
export const frameKinds = { request: 48, answer: 49, refusal: 50, share: 51, release: 52 } as const;

/** Stands for the place of a part that is sent in the message. */
const SENT = -1;

/** The greatest length of a message in bytes, if the options do not set another one. */
export const DEFAULT_MESSAGE_BYTES: number = 1 << 30;
const MAX_REFUSAL_BYTES = 1 << 16;
const MAX_PARTS = 1 << 20;

export const requestLimits = (maxBytes: number): FrameLimits =>
  new Map([
    [frameKinds.request, maxBytes],
    [frameKinds.share, 0],
    [frameKinds.release, 0],
  ]);

export const answerLimits = (maxBytes: number): FrameLimits =>
  new Map([
    [frameKinds.answer, maxBytes],
    [frameKinds.refusal, MAX_REFUSAL_BYTES],
  ]);

const aligned = (length: number): number => Math.ceil(length / 8) * 8;

/**
 * A message as pieces of memory that are written one after the other, so that long parts are not copied. The body has
 * the number of parts, then the length of each part and its place in the shared memory (f64), and then the parts that
 * are not in the shared memory, each padded to a multiple of 8 bytes. `places` has an element for each part. Without
 * it, no part is in shared memory.
 */
export function encodeMessage(
  kind: number,
  tag: number,
  parts: readonly Uint8Array[],
  places: readonly (number | undefined)[] = [],
): readonly Uint8Array[] {
  const tableBytes = 8 * (2 * parts.length + 1);
  const sent = parts.filter((_, index) => places[index] === undefined);
  const length = sent.reduce((sum, part) => sum + aligned(part.byteLength), tableBytes);
  const head = new Uint8Array(HEADER_BYTES + tableBytes);
  const view = new DataView(head.buffer);
  writeHeader(view, { kind, tag, length });
  view.setFloat64(HEADER_BYTES, parts.length, true);
  parts.forEach((part, index) => {
    view.setFloat64(HEADER_BYTES + 8 * (2 * index + 1), part.byteLength, true);
    view.setFloat64(HEADER_BYTES + 8 * (2 * index + 2), places[index] ?? SENT, true);
  });
  const padded = sent.flatMap((part) => {
    const padding = aligned(part.byteLength) - part.byteLength;
    return padding === 0 ? [part] : [part, new Uint8Array(padding)];
  });
  return [head, ...padded];
}

/** The parts of a message, and whether some of them lie in shared memory. */
export interface DecodedMessage {
  readonly parts: readonly Uint8Array[];
  readonly isShared: boolean;
}

/**
 * Reads the parts of a body, as views of it or of the shared memory. Throws CollectiveError if the lengths do not add
 * up.
 */
export function decodeMessage(body: Uint8Array, memory?: MessageMemory): DecodedMessage {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const count = body.byteLength < 8 ? Number.NaN : view.getFloat64(0, true);
  const tableBytes = 8 * (2 * count + 1);
  if (
    !(Number.isInteger(count) && count >= 0 && count <= MAX_PARTS && tableBytes <= body.byteLength)
  ) {
    throw protocolError(`its body of ${body.byteLength} bytes has no table of parts`);
  }
  let offset = tableBytes;
  let isShared = false;
  const parts = Array.from({ length: count }, (_, index) => {
    const length = view.getFloat64(8 * (2 * index + 1), true);
    const place = view.getFloat64(8 * (2 * index + 2), true);
    const end = offset + aligned(length);
    if (!(Number.isSafeInteger(length) && length >= 0)) {
      throw protocolError(`part ${index} of its body has ${length} bytes`);
    }
    if (place !== SENT) {
      if (memory === undefined) throw protocolError('it has parts in memory that is not shared');
      isShared = true;
      return memory.at(place, length);
    }
    if (end > body.byteLength) {
      throw protocolError(`part ${index} of its body reaches beyond its end`);
    }
    const part = body.subarray(offset, offset + length);
    offset = end;
    return part;
  });
  if (offset !== body.byteLength) throw protocolError('its body is longer than its parts');
  return { parts, isShared };
}

interface Refusal extends ErrorParts {
  readonly refusal: string;
}

/** The error of a handler as the parts of a refusal. The client is only told the errors of this project. */
export function encodeRefusal(error: unknown): readonly Uint8Array[] {
  const isOurs = ShardwiseError.isInstance(error);
  const name = isOurs ? error.fields['refusal'] : undefined;
  const texts = isOurs
    ? [typeof name === 'string' ? name : error.code, error.message]
    : ['failed', 'the server failed'];
  return texts.map((text) => new TextEncoder().encode(text.slice(0, 8000)));
}

/**
 * Puts long parts into the shared memory. Returns where each part lies, or undefined for a part that has to be sent.
 */
export function placeParts(
  parts: readonly Uint8Array[],
  memory: MessageMemory | undefined,
): readonly (number | undefined)[] {
  return parts.map((part) =>
    part.byteLength >= LEAST_SHARED_BYTES ? memory?.put(part) : undefined,
  );
}

/** Frees what placeParts has taken. */
export function freePlaces(
  places: readonly (number | undefined)[],
  memory: MessageMemory | undefined,
): void {
  memory?.free(places.filter((place) => place !== undefined));
}

export function decodeRefusal(address: string, parts: readonly Uint8Array[]): RefusedError {
  const [refusal = '', text = ''] = parts.map((part) => new TextDecoder().decode(part));
  const said: Refusal = {
    asked: `A request to ${address}`,
    found: `it was refused (${refusal}): ${text}`,
    todo: 'Change the request',
    refusal,
  };
  return new RefusedError(said, { refusal, address });
}

/** The error of calls whose connection has ended. */
export function lostError(address: string, reason: string, cause?: unknown): CollectiveError {
  return new CollectiveError(
    {
      asked: `A request to ${address}`,
      found: `the connection ended (${reason})`,
      todo: 'Find out why that process has ended the connection',
    },
    { lost: address },
    { cause },
  );
}

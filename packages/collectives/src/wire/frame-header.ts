import { protocolError } from './wire-error.ts';

/**
 * The length of a header in bytes. Every frame begins with one, little-endian, and its body follows:
 *
 *   0  magic   u32
 *   4  kind    u32
 *   8  tag     f64, an integer from 0 to 2^53
 *   16 length  f64, of the body in bytes
 */
export const HEADER_BYTES = 24;

const MAGIC = 0x31_46_57_53;

export interface FrameHeader {
  readonly kind: number;
  readonly tag: number;
  /** The length of the body in bytes. */
  readonly length: number;
}

/** The kinds of frames that a connection may carry, and the greatest length in bytes of each kind's body. */
export type FrameLimits = ReadonlyMap<number, number>;

export function writeHeader(
  view: DataView,
  { kind, tag, length }: FrameHeader,
  byteOffset = 0,
): void {
  view.setUint32(byteOffset, MAGIC, true);
  view.setUint32(byteOffset + 4, kind, true);
  view.setFloat64(byteOffset + 8, tag, true);
  view.setFloat64(byteOffset + 16, length, true);
}

/**
 * Reads a header. Throws CollectiveError for bytes that are no header, and for bodies over the limit of their
 * kind.
 */
export function readHeader(view: DataView, limits: FrameLimits): FrameHeader {
  const magic = view.getUint32(0, true);
  if (magic !== MAGIC) {
    throw protocolError(`it begins with 0x${magic.toString(16)} instead of a frame's mark`);
  }
  const kind = view.getUint32(4, true);
  const tag = view.getFloat64(8, true);
  const length = view.getFloat64(16, true);
  const limit = limits.get(kind);
  if (limit === undefined) throw protocolError(`no frame here is of kind ${kind}`, { kind });
  if (!Number.isSafeInteger(tag) || tag < 0) {
    throw protocolError(`its tag ${tag} is no integer from 0 to 2^53`, { tag });
  }
  if (!Number.isSafeInteger(length) || length < 0 || length > limit) {
    throw protocolError(`its body of ${length} bytes is over the limit of ${limit}`, {
      length,
      limit,
    });
  }
  return { kind, tag, length };
}

/** A header and its body in new memory. */
export function encodeFrame(
  kind: number,
  tag: number,
  body: Uint8Array = new Uint8Array(0),
): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(HEADER_BYTES + body.byteLength);
  writeHeader(new DataView(frame.buffer), { kind, tag, length: body.byteLength });
  frame.set(body, HEADER_BYTES);
  return frame;
}

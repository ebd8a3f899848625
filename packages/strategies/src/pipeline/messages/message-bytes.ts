import {
  currentSession,
  dtypes,
  elementCount,
  type HalfDType,
  type Node,
  OutOfMemoryError,
  type ProcessGroup,
  Storage,
} from '@shardwise/core/extend';
import type { Message } from './message.ts';

/** Receives a message and returns its bytes in the dtype of its node. */
export async function receiveBytes(
  { node, peer, tag, sentAs = null }: Message,
  group: ProcessGroup,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(elementCount(node.shape) * dtypes[sentAs ?? node.dtype].bytes);
  if (bytes.byteLength > 0) await group.recv({ bytes, dtype: 'u8' }, peer, { tag });
  return sentAs === null ? bytes : widened(bytes, sentAs);
}

/**
 * Sends the present value of a node, which may be freed before the message has left. If the device computes in host
 * memory, the bytes stay there until they are sent: a rank that shares this memory copies them even while this rank
 * computes and does not answer.
 */
export async function sendValue(
  { node, peer, tag, sentAs = null }: Message,
  group: ProcessGroup,
): Promise<void> {
  if (elementCount(node.shape) === 0) return;
  // If possible, the message is handed over before this function returns, because the next computation may not give the
  // event loop a turn.
  const { bytes, release } = inHostMemory(node, sentAs) ?? (await readFor(node, sentAs));
  try {
    await group.send({ bytes, dtype: 'u8' }, peer, { tag });
  } finally {
    release();
  }
}

interface Outgoing {
  readonly bytes: Uint8Array;
  readonly release: () => void;
}

/** Returns the value's bytes in host memory, or null if the device has memory of its own. */
function inHostMemory({ value }: Node, sentAs: HalfDType | null): Outgoing | null {
  const { backend } = currentSession();
  const own = value?.kind === 'device' ? backend.map(value.storage.buffer) : undefined;
  if (value?.kind === 'device' && own !== undefined && sentAs === null) {
    const storage = value.storage.share();
    return { bytes: own, release: () => storage.release() };
  }
  const bytes = own ?? (value?.kind === 'host' ? value.bytes : undefined);
  if (bytes === undefined) return null;
  const sent = sentAs === null ? bytes : narrowed(bytes, sentAs);
  const copy = roomFor(sent.byteLength);
  const mapped = copy === null ? undefined : backend.map(copy.buffer);
  mapped?.set(sent);
  return { bytes: mapped ?? sent.slice(), release: () => copy?.release() };
}

/**
 * Returns null if there is no room. The bytes then go by the heap: the message may arrive later, which is better than
 * failing.
 */
function roomFor(byteLength: number): Storage | null {
  try {
    return Storage.allocate(currentSession().backend, byteLength);
  } catch (error) {
    if (error instanceof OutOfMemoryError) return null;
    throw error;
  }
}

async function readFor(node: Node, sentAs: HalfDType | null): Promise<Outgoing> {
  const bytes = await bytesOf(node);
  return { bytes: sentAs === null ? bytes : narrowed(bytes, sentAs), release: () => {} };
}

/** Returns a copy of the value's bytes. */
export async function bytesOf({ value, shape }: Node): Promise<Uint8Array> {
  if (value?.kind === 'host') return value.bytes.slice();
  if (value?.kind !== 'device')
    throw new RangeError(`no value of shape [${shape.join(', ')}] to send`);
  const { backend } = currentSession();
  const { buffer } = value.storage;
  return backend.map(buffer)?.slice() ?? (await backend.read(buffer));
}

/** Rounds f32 values to the nearest 16-bit float, ties to even. Shape: [n] -> [n]. */
export function narrowed(bytes: Uint8Array, dtype: HalfDType): Uint8Array {
  const { buffer, byteOffset, byteLength } = bytes;
  if (dtype === 'f16') {
    const halves = new Float16Array(new Float32Array(buffer, byteOffset, byteLength / 4));
    return new Uint8Array(halves.buffer);
  }
  const words = new Uint32Array(buffer, byteOffset, byteLength / 4);
  const halves = new Uint16Array(words.length);
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? 0;
    const isNaN = (word & 0x7fffffff) > 0x7f800000;
    halves[at] = isNaN ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
  return new Uint8Array(halves.buffer);
}

/** Converts 16-bit floats back to f32. Shape: [n] -> [n]. */
export function widened(
  { buffer, byteOffset, byteLength }: Uint8Array,
  dtype: HalfDType,
): Uint8Array {
  if (dtype === 'f16') {
    const values = new Float32Array(new Float16Array(buffer, byteOffset, byteLength / 2));
    return new Uint8Array(values.buffer);
  }
  const halves = new Uint16Array(buffer, byteOffset, byteLength / 2);
  const words = new Uint32Array(halves.length);
  for (let at = 0; at < halves.length; at++) words[at] = (halves[at] ?? 0) << 16;
  return new Uint8Array(words.buffer);
}

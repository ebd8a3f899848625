import { bytesOf } from '../messages/outer-messages.ts';

/** What is shared of a fragment. Shapes: [n], [n]. */
export interface SharedFragment {
  readonly anchor: Float32Array;
  readonly momentum: Float32Array;
}

/** Copies the anchors and momenta of fragments into one message. */
export function stateBytes(fragments: readonly SharedFragment[]): Uint8Array {
  const arrays = fragments.flatMap(({ anchor, momentum }) => [bytesOf(anchor), bytesOf(momentum)]);
  const bytes = new Uint8Array(arrays.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let at = 0;
  for (const array of arrays) {
    bytes.set(array, at);
    at += array.byteLength;
  }
  return bytes;
}

/** Makes fragments of so many elements of such a message. */
export function fragmentsOf(
  bytes: Uint8Array,
  elements: readonly number[],
): readonly SharedFragment[] {
  const values = new Float32Array(bytes.slice().buffer);
  let at = 0;
  const take = (length: number): Float32Array => values.slice(at, (at += length));
  return elements.map((length) => ({ anchor: take(length), momentum: take(length) }));
}

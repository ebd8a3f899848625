import { elementCount } from '@shardwise/core/extend';
import type { ServedParameter } from './job.ts';
import { refusal } from './refusal.ts';

/** The dtypes in which gradients travel. */
export type SentDtype = 'f32' | 'f16' | 'bf16';

export const sentBytes: Readonly<Record<SentDtype, number>> = { f32: 4, f16: 2, bf16: 2 };

/** Converts a received gradient to f32. If it is f32 already, returns a view. Shape: bytes of [n] elements -> [n]. */
export function receivedGradient(bytes: Uint8Array, dtype: SentDtype): Float32Array {
  const size = sentBytes[dtype];
  const aligned = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes);
  const { buffer, byteOffset } = aligned;
  const length = aligned.byteLength / size;
  switch (dtype) {
    case 'f32':
      return new Float32Array(buffer, byteOffset, length);
    case 'f16':
      return new Float32Array(new Float16Array(buffer, byteOffset, length));
    case 'bf16': {
      // bf16 is the upper half of an f32.
      const halves = new Uint16Array(buffer, byteOffset, length);
      const wide = new Uint32Array(length);
      for (let index = 0; index < length; index++) wide[index] = halves[index]! << 16;
      return new Float32Array(wide.buffer);
    }
    default:
      return dtype satisfies never;
  }
}

/** The f32 values of a received array: a view where its address allows one. */
export function floatsOf(bytes: Uint8Array = new Uint8Array(0)): Float32Array {
  return receivedGradient(bytes, 'f32');
}

/** The bytes of an array, as a view. */
export function viewBytes({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** The number of bytes of all arrays. */
export function byteLengthOf(arrays: readonly Uint8Array[]): number {
  return arrays.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/** Throws RefusedError if the arrays do not fit the parameters that are present. */
export function requireArrays(
  specs: readonly ServedParameter[],
  present: readonly boolean[],
  arrays: readonly Uint8Array[],
  dtype: SentDtype = 'f32',
): void {
  const expected = specs.filter((_, index) => present[index]);
  if (present.length !== specs.length || arrays.length !== expected.length) {
    throw refusal('malformed', {
      asked: 'a message with arrays',
      found: `${arrays.length} arrays and ${present.length} flags for ${specs.length} parameters`,
      todo: 'Send one array for each parameter that has a gradient',
    });
  }
  expected.forEach(({ name, shape }, index) => {
    const bytes = arrays[index]?.byteLength ?? 0;
    const due = elementCount(shape) * sentBytes[dtype];
    if (bytes === due) return;
    throw refusal(bytes > due ? 'oversized' : 'malformed', {
      asked: `an array for '${name}'`,
      found: `${bytes} bytes where ${due} are due`,
      todo: `Send ${dtype} values of the whole parameter`,
    });
  });
}

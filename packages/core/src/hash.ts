/** Returns a 32-bit hash of a text (FNV-1a; Fowler, Noll, Vo 1991). */
export function hashOf(text: string): number {
  let hash = hashOffset;
  for (let index = 0; index < text.length; index++) hash = mixed(hash, text.charCodeAt(index));
  return hash;
}

/** Returns a 32-bit hash of numbers (FNV-1a with 32-bit integers in the place of bytes). */
export function hashOfNumbers(numbers: Int32Array | Uint8Array): number {
  let hash = hashOffset;
  for (const number of numbers) hash = mixed(hash, number);
  return hash;
}

/** The hash of an empty sequence. */
export const hashOffset: number = 0x811c9dc5 | 0;

/** Returns the hash of a sequence after one more number, from the hash before it. */
export function mixed(hash: number, value: number): number {
  return Math.imul(hash ^ value, 0x01000193);
}

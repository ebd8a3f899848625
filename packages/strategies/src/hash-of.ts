/** A hash of a text (FNV-1a; Fowler, Noll, Vo 1991), in 32 bits. */
export function hashOf(text: string): number {
  let hash = hashOffset;
  for (let index = 0; index < text.length; index++) hash = mixed(hash, text.charCodeAt(index));
  return hash;
}

/** The hash of nothing. */
export const hashOffset: number = 0x811c9dc5 | 0;

/** The hash of what has this hash, with a number behind it. */
export function mixed(hash: number, value: number): number {
  return Math.imul(hash ^ value, 0x01000193);
}

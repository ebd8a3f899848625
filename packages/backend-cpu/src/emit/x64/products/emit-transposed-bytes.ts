import type { Assembler } from '../assembler.ts';
import type { Vector } from '../operands.ts';

/**
 * Transposes the bytes of eight vectors, for each 16 bytes of them by themselves. Returns eight vectors: the first has byte 0
 * of all lanes and then byte 1, the second bytes 2 and 3, and so on. Changes the vectors and `spare`.
 */
export function emitTransposedBytes(
  code: Assembler,
  vectors: readonly Vector[],
  spare: Vector,
): readonly Vector[] {
  let free = spare;
  /** The bytes of both by turns: the first eight of each, and the last eight. */
  const interleaved = (a: Vector, b: Vector): readonly [Vector, Vector] => {
    const first = free;
    code.ternary('vpunpcklbw', first, a, b);
    code.ternary('vpunpckhbw', b, a, b);
    free = a;
    return [first, b];
  };
  const [a = spare, b = a, c = a, d = a, e = a, f = a, g = a, h = a] = vectors;
  const pairs = [
    [a, e],
    [b, f],
    [c, g],
    [d, h],
  ] as const;
  // Lane i + 4 is beside lane i, then lane i + 2, and then lane i + 1.
  const ofFour = pairs.map(([low, high]) => interleaved(low, high));
  return ([0, 1] as const).flatMap((half) => {
    const [p = spare, q = p, r = p, s = p] = ofFour.map((both) => both[half]);
    const [even, odd] = [interleaved(p, r), interleaved(q, s)];
    return ([0, 1] as const).flatMap((part) => interleaved(even[part], odd[part]));
  });
}

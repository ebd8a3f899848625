import type { Assembler } from '../machine-code/assembler.ts';
import { at, rdi, type Vector, zmm } from '../machine-code/operands.ts';

/** Stores the columns of the 16 x 16 elements in zmm0 to zmm15 at rdi, `unitBytes` from each other. */
export function emitTranspose(code: Assembler, unitBytes: number): void {
  const [row, other] = [zmm, (index: number): Vector => zmm(16 + index)];
  for (let pair = 0; pair < 8; pair++) {
    code.ternary('vunpcklps', other(2 * pair), row(2 * pair), row(2 * pair + 1));
    code.ternary('vunpckhps', other(2 * pair + 1), row(2 * pair), row(2 * pair + 1));
  }
  for (let four = 0; four < 16; four += 4) {
    code.ternary('vunpcklpd', row(four), other(four), other(four + 2));
    code.ternary('vunpckhpd', row(four + 1), other(four), other(four + 2));
    code.ternary('vunpcklpd', row(four + 2), other(four + 1), other(four + 3));
    code.ternary('vunpckhpd', row(four + 3), other(four + 1), other(four + 3));
  }
  const [even, odd] = [0x88, 0xdd];
  for (let column = 0; column < 4; column++) {
    const [a, b] = [other(4 * column), other(4 * column + 1)];
    const [c, d] = [other(4 * column + 2), other(4 * column + 3)];
    code.ternaryWith('vshuff32x4', a, row(column), row(column + 4), even);
    code.ternaryWith('vshuff32x4', b, row(column), row(column + 4), odd);
    code.ternaryWith('vshuff32x4', c, row(column + 8), row(column + 12), even);
    code.ternaryWith('vshuff32x4', d, row(column + 8), row(column + 12), odd);
  }
  // Their columns, in order: what a store writes behind a short unit is overwritten by the next.
  for (let column = 0; column < 16; column++) {
    const place = 4 * (column % 4) + (Math.floor(column / 4) % 2);
    const result = row(0);
    code.ternaryWith('vshuff32x4', result, other(place), other(place + 2), column < 8 ? even : odd);
    code.vstore('vmovups', at(rdi, column * unitBytes), result);
  }
}

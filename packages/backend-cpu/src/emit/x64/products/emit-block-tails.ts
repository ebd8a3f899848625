import type { Assembler } from '../assembler.ts';
import { at, r8, rdi, ymm } from '../operands.ts';
import type { Label } from '../../label.ts';
import { emitTransposedBytes } from './emit-transposed-bytes.ts';

/** The lanes that are decoded at once. */
export const GROUP_LANES = 8;
/** The numbers of a lane that are decoded at once. */
export const NUMBERS = 32;

/** The routines that end the decoding of 32 elements of eight lanes, for whole numbers with and without a sign. */
export interface BlockTails {
  readonly signed: Label;
  readonly unsigned: Label;
}

/**
 * Writes the routines that all formats share. ymm0 to ymm7 have 32 bytes of a lane each, which are whole numbers. They are
 * transposed and converted. Numbers with a sign are multiplied by ymm10, and the last 16 of them by ymm11. Those without are
 * multiplied by ymm10, and ymm11 is added. The results are stored at rdi, which moves on. r8: memory for the bytes.
 */
export function emitBlockTails(code: Assembler, panelLanes: number): BlockTails {
  const tail = (isSigned: boolean): Label => {
    const start = code.entry();
    const rows = emitTransposedBytes(
      code,
      Array.from({ length: GROUP_LANES }, (_, lane) => ymm(lane)),
      ymm(8),
    );
    rows.forEach((row, index) => code.vstore('vmovups', at(r8, 32 * index), row));
    for (let element = 0; element < NUMBERS; element++) {
      const number = ymm(element % 8);
      const [half, place] = [Math.floor(element / 16), element % 16];
      // A row has the bytes of two elements of the first half, and then those of two of the second.
      const bytes = at(r8, 32 * (place >> 1) + 16 * half + 8 * (place & 1));
      code.binary(isSigned ? 'vpmovsxbd' : 'vpmovzxbd', number, bytes);
      code.binary('vcvtdq2ps', number, number);
      if (isSigned) code.ternary('vmulps', number, number, ymm(10 + half));
      else code.ternary('vfmadd213ps', number, ymm(10), ymm(11));
      code.vstore('vmovups', at(rdi, 4 * panelLanes * element), number);
    }
    code.add(rdi, 4 * panelLanes * NUMBERS);
    code.ret();
    return start;
  };
  return { signed: tail(true), unsigned: tail(false) };
}

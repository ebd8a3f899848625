import type { Assembler } from '../../assembler.ts';
import {
  at,
  mask,
  type Memory,
  type Register,
  rax,
  type Vector,
  ymm,
  zmm,
} from '../../operands.ts';
import { bf16Offset, bf16Table, type BitsOfBf16, type Vectors } from './vectors.ts';
import type { Label } from '../../../label.ts';
import type { ElementPacking } from '../../../../program/work/product-kinds.ts';

/** The lanes of one vector. */
const LANES = 16;
const [first, second] = [mask(1), mask(2)];
/** The mask of the lanes of a panel's last vector that belong to the panel. */
const ofPanel = mask(3);
const chosen = mask(5);

/** The vectors of AVX-512. `rounds` says whether the processor has instructions for bf16. */
export class Avx512Vectors implements Vectors {
  readonly lanes: Vectors['lanes'] = LANES;
  readonly byteLength: Vectors['byteLength'] = 64;
  readonly tile: Vectors['tile'] = { rows: 14, columns: 32 };
  readonly #code: Assembler;
  readonly #constants: Label | null;

  constructor(code: Assembler, rounds: boolean) {
    this.#code = code;
    this.#constants = rounds ? null : code.entry();
    if (!rounds) code.int32s(bf16Table);
  }

  vector(index: number): Vector {
    return zmm(index);
  }

  zero(target: Vector): void {
    this.#code.ternary('vpxord', target, target, target);
  }

  transpose(visit: (column: number, vector: Vector, spare: Vector) => void): void {
    const code = this.#code;
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
    for (let column = 0; column < 16; column++) {
      const place = 4 * (column % 4) + (Math.floor(column / 4) % 2);
      const which = column < 8 ? even : odd;
      code.ternaryWith('vshuff32x4', row(0), other(place), other(place + 2), which);
      visit(column, row(0), row(1));
    }
  }

  narrow(target: Vector, firstSpare: number): void {
    const code = this.#code;
    if (this.#constants === null) {
      code.binary('vcvtneps2bf16', ymm(target.index), target);
      code.binary('vpmovzxwd', target, ymm(target.index));
      return;
    }
    code.addressOf(rax, this.#constants);
    const constant = (name: BitsOfBf16): Memory => at(rax, bf16Offset(name));
    const all = { broadcast: true };
    const here = { mask: chosen, broadcast: true };
    const [rounded, size] = [zmm(firstSpare), zmm(firstSpare + 1)];
    code.shift('vpsrld', rounded, target, 16);
    code.ternary('vpandd', rounded, rounded, constant('one'), all);
    code.ternary('vpaddd', rounded, rounded, constant('half'), all);
    code.ternary('vpaddd', rounded, rounded, target);
    code.ternary('vpandd', size, target, constant('withoutSign'), all);
    code.ternaryWith('vpcmpd', chosen, size, constant('infinity'), 6, all);
    code.ternary('vpord', rounded, target, constant('quiet'), here);
    code.ternaryWith('vpcmpd', chosen, size, constant('leastNormal'), 1, all);
    code.ternary('vpandd', rounded, target, constant('sign'), here);
    code.shift('vpsrld', target, rounded, 16);
  }

  beginLanes(count: Register, _packing: ElementPacking, panelLanes: number): void {
    const code = this.#code;
    if (panelLanes % LANES !== 0) {
      code.mov(rax, (1 << (panelLanes % LANES)) - 1);
      code.kmovd(ofPanel, rax);
    }
    this.#setMasks(count);
  }

  loadLanes(packing: ElementPacking, target: Vector, base: Register, part: number): void {
    const code = this.#code;
    const options = { mask: mask(1 + part), zero: true };
    if (packing === 'bf16') code.binary('vpmovzxwd', target, at(base, 32 * part), options);
    else code.binary('vmovups', target, at(base, 64 * part), options);
    if (packing === 'f32 as bf16') this.narrow(target, 4);
  }

  storeLanes(place: Memory, source: Vector, part: number, panelLanes: number): void {
    const isWhole = (part + 1) * LANES <= panelLanes;
    this.#code.vstore('vmovups', place, source, isWhole ? {} : { mask: ofPanel });
  }

  beginUnits(count: Register, packing: ElementPacking): void {
    const code = this.#code;
    const whole = code.label();
    const elements = packing === 'f32' ? LANES : 2 * LANES;
    code.mov(rax, -1);
    code.cmp(count, elements);
    code.jumpIf('notLess', whole);
    code.bzhi(rax, rax, count);
    code.place(whole);
    code.kmovd(first, rax);
    if (packing === 'f32 as bf16') code.kshiftrd(second, first, LANES);
  }

  loadUnits(packing: ElementPacking, target: Vector, base: Register): void {
    const code = this.#code;
    const low = { mask: first, zero: true };
    code.binary(packing === 'bf16' ? 'vmovdqu16' : 'vmovups', target, at(base), low);
    if (packing !== 'f32 as bf16') return;
    const rest = zmm(31);
    code.binary('vmovups', rest, at(base, 64), { mask: second, zero: true });
    if (this.#constants === null) {
      code.ternary('vcvtne2ps2bf16', target, rest, target);
      return;
    }
    for (const values of [target, rest]) {
      this.narrow(values, 16);
      code.vpmovdw(ymm(values.index), values);
    }
    code.ternaryWith('vinserti64x4', target, target, ymm(rest.index), 1);
  }

  beginColumns(count: Register): void {
    this.#setMasks(count);
  }

  passColumns(): void {
    // Kernels read the masks that `beginColumns` has set.
  }

  prepareColumns(): void {
    // The masks are set already.
  }

  loadColumns(target: Vector, place: Memory, half: 0 | 1): void {
    this.#code.binary('vmovups', target, place, { mask: mask(1 + half), zero: true });
  }

  eachStore(emit: (isWhole: boolean) => void): void {
    emit(false);
  }

  storeColumns(place: Memory, sum: Vector, half: 0 | 1): void {
    this.#code.vstore('vmovups', place, sum, { mask: mask(1 + half) });
  }

  storeNarrowColumns(base: Register, row: readonly [Vector, Vector]): void {
    const code = this.#code;
    for (const [half, sum] of row.entries()) {
      const [place, there] = [at(base, 32 * half), { mask: mask(1 + half) }];
      if (this.#constants === null) {
        code.binary('vcvtneps2bf16', ymm(28), sum);
        code.vstore('vmovdqu16', place, ymm(28), there);
      } else {
        this.narrow(sum, 28);
        code.vstore('vpmovdw', place, sum, there);
      }
    }
  }

  /** Sets the masks of two vectors, which have `count` lanes together. */
  #setMasks(count: Register): void {
    const code = this.#code;
    code.mov(rax, -1);
    code.bzhi(rax, rax, count);
    code.kmovd(first, rax);
    code.kshiftrd(second, first, LANES);
  }
}

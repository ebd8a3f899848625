import type { Assembler } from '../../assembler.ts';
import {
  at,
  indexed,
  type Memory,
  r10,
  r11,
  r8,
  rax,
  rcx,
  type Register,
  rsi,
  rsp,
  type Vector,
  xmm,
  ymm,
} from '../../operands.ts';
import { bf16Offset, bf16Table, type BitsOfBf16, type Vectors } from './vectors.ts';
import type { Label } from '../../../label.ts';
import type { ElementPacking } from '../../../../program/work/product-kinds.ts';

/** The lanes of one vector. */
const LANES = 8;
/** The lanes of two vectors. No mask has more. */
const mostLanes = 2 * LANES;
/** The offset of memory below the stack pointer. Nothing else writes it, because kernels call no other code. */
const RED_ZONE = -64;

/**
 * The vectors of AVX2. AVX2 has no mask registers, so vectors say which elements exist. These are read from tables.
 * Elements of 2 bytes are read and written in pairs, and then the last one by itself.
 */
export class Avx2Vectors implements Vectors {
  readonly lanes: Vectors['lanes'] = LANES;
  readonly byteLength: Vectors['byteLength'] = 32;
  readonly tile: Vectors['tile'] = { rows: 6, columns: 16 };
  readonly #code: Assembler;
  readonly #constants: Label;
  /** A table: as many elements with all bits set as two vectors have, and then as many without bits. */
  readonly #elements: Label;
  /** A table: a vector without bits, 2 bytes with all bits set, and a vector without bits. */
  readonly #halfElement: Label;

  constructor(code: Assembler) {
    this.#code = code;
    this.#constants = code.entry();
    code.int32s(bf16Table);
    this.#elements = code.entry();
    code.int32s(Array.from({ length: 2 * mostLanes }, (_, index) => (index < mostLanes ? -1 : 0)));
    this.#halfElement = code.entry();
    code.int32s(
      Array.from({ length: 2 * LANES + 1 }, (_, index) => (index === LANES ? 0xffff : 0)),
    );
  }

  vector(index: number): Vector {
    return ymm(index);
  }

  zero(target: Vector): void {
    this.#code.ternary('vxorps', target, target, target);
  }

  transpose(visit: (column: number, vector: Vector, spare: Vector) => void): void {
    const code = this.#code;
    const [row, other] = [ymm, (index: number): Vector => ymm(LANES + index)];
    for (let pair = 0; pair < 4; pair++) {
      code.ternary('vunpcklps', other(2 * pair), row(2 * pair), row(2 * pair + 1));
      code.ternary('vunpckhps', other(2 * pair + 1), row(2 * pair), row(2 * pair + 1));
    }
    for (let four = 0; four < LANES; four += 4) {
      code.ternary('vunpcklpd', row(four), other(four), other(four + 2));
      code.ternary('vunpckhpd', row(four + 1), other(four), other(four + 2));
      code.ternary('vunpcklpd', row(four + 2), other(four + 1), other(four + 3));
      code.ternary('vunpckhpd', row(four + 3), other(four + 1), other(four + 3));
    }
    const [low, high] = [0x20, 0x31];
    for (let column = 0; column < LANES; column++) {
      const [of, which] = [column % 4, column < 4 ? low : high];
      code.ternaryWith('vperm2f128', other(0), row(of), row(of + 4), which);
      visit(column, other(0), other(1));
    }
  }

  narrow(target: Vector, firstSpare: number): void {
    const code = this.#code;
    code.addressOf(rax, this.#constants);
    const constant = (name: BitsOfBf16): Memory => at(rax, bf16Offset(name));
    const spare = (index: number): Vector => ymm(firstSpare + index);
    const [rounded, size, isSo, other] = [spare(0), spare(1), spare(2), spare(3)];
    code.shift('vpsrld', rounded, target, 16);
    code.ternary('vandps', rounded, rounded, constant('one'));
    code.ternary('vpaddd', rounded, rounded, constant('half'));
    code.ternary('vpaddd', rounded, rounded, target);
    code.ternary('vandps', size, target, constant('withoutSign'));
    code.ternary('vpcmpgtd', isSo, size, constant('infinity'));
    code.ternary('vorps', other, target, constant('quiet'));
    code.ternaryWith('vblendvps', rounded, rounded, other, 16 * isSo.index);
    code.binary('vmovups', isSo, constant('leastNormal'));
    code.ternary('vpcmpgtd', isSo, isSo, size);
    code.ternary('vandps', other, target, constant('sign'));
    code.ternaryWith('vblendvps', rounded, rounded, other, 16 * isSo.index);
    code.shift('vpsrld', target, rounded, 16);
  }

  /**
   * Loads the masks of a panel's vectors into vectors 12 and 13. For bf16, vectors 14 and 15 get the masks of the last
   * element of an odd number.
   */
  beginLanes(count: Register, packing: ElementPacking): void {
    const code = this.#code;
    code.mov(r8, count);
    if (packing === 'bf16') {
      this.#beginHalves();
      code.binary('vmovups', xmm(12), at(r10));
      code.binary('vmovups', xmm(13), at(r10, 16));
      code.binary('vmovups', xmm(14), at(rax));
      code.binary('vmovups', xmm(15), at(rax, 16));
      return;
    }
    this.#beginElements();
    code.binary('vmovups', ymm(12), at(r10));
    code.binary('vmovups', ymm(13), at(r10, 32));
  }

  loadLanes(packing: ElementPacking, target: Vector, base: Register, part: number): void {
    const code = this.#code;
    if (packing === 'bf16') {
      const [half, last] = [xmm(target.index), xmm(4)];
      code.ternary('vpmaskmovd', half, xmm(12 + part), at(base, 16 * part));
      code.binary('vpbroadcastw', last, indexed(base, r8));
      code.ternaryWith('vpblendvb', half, half, last, 16 * (14 + part));
      code.binary('vpmovzxwd', target, half);
      return;
    }
    code.ternary('vmaskmovps', target, ymm(12 + part), at(base, 32 * part));
    if (packing === 'f32 as bf16') this.narrow(target, 4);
  }

  storeLanes(place: Memory, source: Vector, part: number, panelLanes: number): void {
    const code = this.#code;
    if ((part + 1) * LANES <= panelLanes) {
      code.vstore('vmovups', place, source);
      return;
    }
    // The last vector of a panel has only some of its lanes: a panel has six rows, which are 16 bytes and 8 bytes.
    code.vstore('vmovups', place, xmm(source.index));
    code.vextractf128(xmm(4), source, 1);
    code.vstore('vmovlps', { ...place, displacement: place.displacement + 16 }, xmm(4));
  }

  /**
   * Loads a mask into vector 15. Vector 14 gets the mask of a second vector, or for bf16 that of the last element of an
   * odd number.
   */
  beginUnits(count: Register, packing: ElementPacking): void {
    const code = this.#code;
    const fewer = code.label();
    code.mov(r8, count);
    code.cmp(r8, mostLanes);
    code.jumpIf('less', fewer);
    code.mov(r8, mostLanes);
    code.place(fewer);
    if (packing === 'bf16') {
      this.#beginHalves();
      code.binary('vmovups', ymm(15), at(r10));
      code.binary('vmovups', ymm(14), at(rax));
      return;
    }
    this.#beginElements();
    code.binary('vmovups', ymm(15), at(r10));
    if (packing === 'f32 as bf16') code.binary('vmovups', ymm(14), at(r10, 32));
  }

  loadUnits(packing: ElementPacking, target: Vector, base: Register): void {
    const code = this.#code;
    if (packing === 'bf16') {
      code.ternary('vpmaskmovd', target, ymm(15), at(base));
      code.binary('vpbroadcastw', ymm(13), indexed(base, r8));
      code.ternaryWith('vpblendvb', target, target, ymm(13), 16 * 14);
      return;
    }
    code.ternary('vmaskmovps', target, ymm(15), at(base));
    if (packing !== 'f32 as bf16') return;
    const rest = ymm(8);
    code.ternary('vmaskmovps', rest, ymm(14), at(base, 32));
    this.narrow(target, 9);
    this.narrow(rest, 9);
    this.#join(target, target, rest);
  }

  /** Stores how many bytes the missing columns have, to the place on the stack. */
  beginColumns(count: Register, place: Memory): void {
    const code = this.#code;
    code.mov(rax, mostLanes);
    code.sub(rax, count);
    code.shl(rax, 2);
    code.store(place, rax);
  }

  passColumns(place: Memory): void {
    this.#code.mov(r11, place);
  }

  prepareColumns(): void {
    const code = this.#code;
    code.addressOf(rax, this.#elements);
    code.binary('vmovups', ymm(14), indexed(rax, r11));
    code.binary('vmovups', ymm(15), indexed(rax, r11, 1, 32));
  }

  loadColumns(target: Vector, place: Memory, half: 0 | 1): void {
    this.#code.ternary('vmaskmovps', target, ymm(14 + half), place);
  }

  /**
   * Writes stores without masks for whole panels, because masked stores take several times as long on some processors.
   */
  eachStore(emit: (isWhole: boolean) => void): void {
    const code = this.#code;
    const [partial, done] = [code.label(), code.label()];
    code.cmp(r11, 0);
    code.jumpIf('notEqual', partial);
    emit(true);
    code.jump(done);
    code.place(partial);
    this.prepareColumns();
    emit(false);
    code.place(done);
  }

  storeColumns(place: Memory, sum: Vector, half: 0 | 1, isWhole: boolean): void {
    if (isWhole) this.#code.vstore('vmovups', place, sum);
    else this.#code.maskedStore('vmaskmovps', place, ymm(14 + half), sum);
  }

  storeNarrowColumns(base: Register, row: readonly [Vector, Vector], isWhole: boolean): void {
    const code = this.#code;
    const [low, high] = row;
    for (const sum of row) this.narrow(sum, 12);
    const joined = ymm(12);
    this.#join(joined, low, high);
    if (isWhole) {
      code.vstore('vmovups', at(base), joined);
      return;
    }
    // rcx becomes four times the number of columns. r8 and r10 are not used, because they belong to the kernel.
    code.mov(rcx, 4 * mostLanes);
    code.sub(rcx, r11);
    code.mov(rsi, rcx);
    code.shr(rsi, 3);
    code.shl(rsi, 2);
    code.addressOf(rax, this.#elements);
    code.sub(rax, rsi);
    code.binary('vmovups', ymm(13), at(rax, 4 * mostLanes));
    code.maskedStore('vpmaskmovd', at(base), ymm(13), joined);
    code.vstore('vmovups', at(rsp, RED_ZONE), joined);
    code.shr(rcx, 1);
    code.load16(rax, indexed(rsp, rcx, 1, RED_ZONE - 2));
    code.store16(indexed(base, rcx, 1, -2), rax);
  }

  /** Joins the low halves of the elements of two vectors. */
  #join(target: Vector, low: Vector, high: Vector): void {
    this.#code.ternary('vpackusdw', target, low, high);
    this.#code.binaryWith('vpermq', target, target, 0xd8);
  }

  /** Finds masks of elements of 4 bytes. r8: the number of elements, and then their bytes. r10: where the masks lie. */
  #beginElements(): void {
    const code = this.#code;
    code.shl(r8, 2);
    code.addressOf(r10, this.#elements);
    code.sub(r10, r8);
    code.add(r10, 4 * mostLanes);
  }

  /**
   * Finds masks of elements of 2 bytes. r8: the number of elements, and then the bytes from the first element to the
   * last. r10: where the masks of pairs lie. rax: where the mask of the last element of an odd number lies.
   */
  #beginHalves(): void {
    const code = this.#code;
    code.mov(r10, r8);
    code.shr(r10, 1);
    code.shl(r10, 2);
    code.addressOf(rax, this.#elements);
    code.sub(rax, r10);
    code.add(rax, 4 * mostLanes);
    code.push(rax);
    // rax becomes twice the number if it is odd, and 0 otherwise.
    code.mov(rax, r8);
    code.and(rax, 1);
    code.imul(rax, r8);
    code.shl(rax, 1);
    code.mov(r10, rax);
    code.addressOf(rax, this.#halfElement);
    code.sub(rax, r10);
    code.add(rax, 4 * LANES + 2);
    code.pop(r10);
    code.shl(r8, 1);
    code.sub(r8, 2);
  }
}

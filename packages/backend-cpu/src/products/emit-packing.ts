import type { Assembler } from '../machine-code/assembler.ts';
import type { Label } from '../machine-code/code.ts';
import {
  at,
  indexed,
  mask,
  r10,
  r11,
  r12,
  r13,
  r14,
  r8,
  r9,
  rax,
  rbp,
  rbx,
  rcx,
  rdi,
  rsi,
  rsp,
  type Vector,
  ymm,
  zmm,
} from '../machine-code/operands.ts';
import { type Packing, unitElements } from './product-types.ts';
import { taskField } from './task-layout.ts';

/** How a panel lies in memory: unit by unit, or in tiles of 16 lanes by 16 units, lane by lane. */
export interface PanelShape {
  readonly lanes: number;
  readonly inTiles: boolean;
}

/**
 * The routine that packs panels of rows or columns: for each unit of k, what all lanes have there lies
 * together, or in tiles. With `transposes`, the elements of a lane lie together in memory, and `strideBytes` is from lane to lane;
 * without, the lanes of an element do, and it is from element to element.
 *
 * What is written behind the end of a panel lies in the next one, which is packed later, or in the spare bytes behind
 * the last. Nothing that is not there is read.
 */
export function emitPacking(
  code: Assembler,
  packing: Packing,
  shape: PanelShape,
  transposes: boolean,
): Label {
  const { lanes } = shape;
  const start = code.entry();
  // r12: the source of a panel. r13: its place. r14: panels to come.
  code.mov(rax, taskField('pack', 'operand'));
  code.mov(r12, indexed(rbp, rax));
  code.add(r12, taskField('pack', 'byteOffset'));
  code.mov(r13, packedMemory);
  code.add(r13, taskField('pack', 'packedOffset'));
  code.mov(r14, taskField('pack', 'panels'));
  const [next, whole] = [code.label(), code.label()];
  code.place(next);
  // rbx: how many of the lanes there are.
  code.mov(rbx, lanes);
  code.cmp(r14, 1);
  code.jumpIf('greater', whole);
  code.mov(rbx, taskField('pack', 'lastLanes'));
  code.place(whole);
  if (transposes) emitTransposingPanel(code, packing, shape);
  else if (shape.inTiles) emitStraightTiles(code, packing, lanes);
  else emitStraightPanel(code, packing, lanes);
  code.add(r12, taskField('pack', 'panelStepBytes'));
  code.add(r13, taskField('pack', 'packedPanelBytes'));
  code.sub(r14, 1);
  code.jumpIf('notEqual', next);
  code.ret();
  return start;
}

const packedMemory = at(rbp, 8 * 4);

/** Sixteen lanes are one vector, of which each element is a unit. */
const vectorLanes = 16;

function emitTransposingPanel(code: Assembler, packing: Packing, shape: PanelShape): void {
  const { lanes } = shape;
  const groups = Math.ceil(lanes / vectorLanes);
  const tableBytes = 8 * vectorLanes * groups;
  code.sub(rsp, tableBytes);
  // A table of where the lanes begin. Those that are not there are the last one once more.
  code.mov(rax, r12);
  code.mov(r8, taskField('pack', 'strideBytes'));
  for (let lane = 0; lane < vectorLanes * groups; lane++) {
    const isLast = code.label();
    code.store(at(rsp, 8 * lane), rax);
    code.cmp(rbx, lane + 2);
    code.jumpIf('less', isLast);
    code.add(rax, r8);
    code.place(isLast);
  }
  for (let group = 0; group < groups; group++) {
    emitTransposedGroup(code, packing, shape, group);
  }
  code.add(rsp, tableBytes);
}

function emitTransposedGroup(
  code: Assembler,
  packing: Packing,
  { lanes, inTiles }: PanelShape,
  group: number,
): void {
  const unitBytes = inTiles ? 64 : 4 * lanes;
  const elements = vectorLanes * unitElements(packing);
  const elementBytes = packing === 'bf16' ? 2 : 4;
  const [loop, whole, done] = [code.label(), code.label(), code.label()];
  // rcx: bytes into each lane. r11: elements to come. rdi: the place.
  code.xor(rcx, rcx);
  code.mov(r11, taskField('pack', 'elements'));
  emitGroupStart(code, inTiles, group);
  code.place(loop);
  code.cmp(r11, 1);
  code.jumpIf('less', done);
  code.mov(rax, -1);
  code.cmp(r11, elements);
  code.jumpIf('notLess', whole);
  code.bzhi(rax, rax, r11);
  code.place(whole);
  code.kmovd(mask(1), rax);
  if (packing === 'f32 as bf16') code.kshiftrd(mask(2), mask(1), vectorLanes);
  for (let lane = 0; lane < vectorLanes; lane++) {
    code.mov(rax, at(rsp, 8 * (vectorLanes * group + lane)));
    emitUnitsOfLane(code, packing, zmm(lane));
  }
  if (inTiles) {
    // The lanes of a tile lie as they lay in memory.
    for (let lane = 0; lane < vectorLanes; lane++) {
      code.vstore('vmovups', at(rdi, 64 * lane), zmm(lane));
    }
  } else emitTranspose(code, unitBytes);
  code.add(rcx, elements * elementBytes);
  code.add(rdi, vectorLanes * unitBytes);
  code.sub(r11, elements);
  code.jump(loop);
  code.place(done);
}

/** rdi: where the first tile, or the first unit, of 16 lanes lies. */
function emitGroupStart(code: Assembler, inTiles: boolean, group: number): void {
  code.mov(rdi, r13);
  if (!inTiles) code.add(rdi, 64 * group);
  else if (group === 1) {
    code.mov(rax, taskField('pack', 'packedPanelBytes'));
    code.shr(rax, 1);
    code.add(rdi, rax);
  }
}

/** Sixteen units of the lane at rax. */
function emitUnitsOfLane(code: Assembler, packing: Packing, target: Vector): void {
  const low = { mask: mask(1), zero: true };
  if (packing === 'bf16') code.binary('vmovdqu16', target, indexed(rax, rcx), low);
  else code.binary('vmovups', target, indexed(rax, rcx), low);
  if (packing !== 'f32 as bf16') return;
  const rest = zmm(31);
  code.binary('vmovups', rest, indexed(rax, rcx, 1, 64), { mask: mask(2), zero: true });
  code.ternary('vcvtne2ps2bf16', target, rest, target);
}

/** Stores the columns of the 16 x 16 elements in zmm0 to zmm15, `unitBytes` from each other. */
function emitTranspose(code: Assembler, unitBytes: number): void {
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

function emitStraightPanel(code: Assembler, packing: Packing, lanes: number): void {
  const unitBytes = 4 * lanes;
  const vectors = Math.ceil(lanes / vectorLanes);
  const [loop, last, done] = [code.label(), code.label(), code.label()];
  code.mov(rax, -1);
  code.bzhi(rax, rax, rbx);
  code.kmovd(mask(1), rax);
  code.kshiftrd(mask(2), mask(1), vectorLanes);
  // rsi: the element. r10: the one behind it. r11: elements to come. rdi: the place.
  code.mov(rsi, r12);
  code.mov(rdi, r13);
  code.mov(r9, taskField('pack', 'strideBytes'));
  code.mov(r11, taskField('pack', 'elements'));
  const count = unitElements(packing);
  code.place(loop);
  code.cmp(r11, count);
  code.jumpIf('less', count === 1 ? done : last);
  code.lea(r10, indexed(rsi, r9));
  for (let vector = 0; vector < vectors; vector++) {
    emitStraightUnit(code, packing, vector, true);
  }
  code.lea(rsi, indexed(rsi, r9, count));
  code.add(rdi, unitBytes);
  code.sub(r11, count);
  code.jump(loop);
  if (count === 2) {
    code.place(last);
    code.cmp(r11, 1);
    code.jumpIf('less', done);
    for (let vector = 0; vector < vectors; vector++) {
      emitStraightUnit(code, packing, vector, false);
    }
    code.add(rdi, unitBytes);
  }
  code.place(done);
  emitZeros(code, unitBytes, vectors);
}

/** From rdi to the end of the panel, which tiles read: there what is no number would make all of their sums NaN. */
function emitZeros(code: Assembler, unitBytes: number, vectors: number): void {
  const [loop, done] = [code.label(), code.label()];
  code.mov(rax, r13);
  code.add(rax, taskField('pack', 'packedPanelBytes'));
  code.ternary('vpxord', zmm(0), zmm(0), zmm(0));
  code.place(loop);
  code.cmp(rdi, rax);
  code.jumpIf('notLess', done);
  for (let vector = 0; vector < vectors; vector++) {
    code.vstore('vmovups', at(rdi, 64 * vector), zmm(0));
  }
  code.add(rdi, unitBytes);
  code.jump(loop);
  code.place(done);
}

/** Two groups of 16 lanes, whose elements for each k lie together, in tiles. */
function emitStraightTiles(code: Assembler, packing: Packing, lanes: number): void {
  code.mov(rax, -1);
  code.bzhi(rax, rax, rbx);
  code.kmovd(mask(1), rax);
  code.kshiftrd(mask(2), mask(1), vectorLanes);
  for (let group = 0; group < lanes / vectorLanes; group++) {
    const [loop, done] = [code.label(), code.label()];
    code.mov(rsi, r12);
    code.mov(r9, taskField('pack', 'strideBytes'));
    code.mov(r11, taskField('pack', 'elements'));
    emitGroupStart(code, true, group);
    code.place(loop);
    code.cmp(r11, 1);
    code.jumpIf('less', done);
    const [partial, loaded] = [code.label(), code.label()];
    code.cmp(r11, 2 * vectorLanes);
    code.jumpIf('less', partial);
    for (let unit = 0; unit < vectorLanes; unit++) emitWholeUnit(code, packing, group, unit);
    code.jump(loaded);
    code.place(partial);
    for (let unit = 0; unit < vectorLanes; unit++) emitUnitOfTile(code, packing, group, unit);
    code.place(loaded);
    emitTranspose(code, 64);
    code.add(rdi, 64 * vectorLanes);
    code.sub(r11, 2 * vectorLanes);
    code.jump(loop);
    code.place(done);
  }
}

/** Unit `unit` of 16 lanes in the vector of this number, where k has both of its elements. */
function emitWholeUnit(code: Assembler, packing: Packing, group: number, unit: number): void {
  const offset = (packing === 'bf16' ? 32 : 64) * group;
  const [pair, second] = [zmm(unit), zmm(31 - (unit % 2))];
  emitWords(code, packing, pair, at(rsi, offset), group);
  emitWords(code, packing, second, indexed(rsi, r9, 1, offset), group);
  code.lea(rsi, indexed(rsi, r9, 2));
  code.shift('vpslld', second, second, 16);
  code.ternary('vpord', pair, pair, second);
}

/** Unit `unit` of 16 lanes in the vector of this number: 0 where k has come to its end. */
function emitUnitOfTile(code: Assembler, packing: Packing, group: number, unit: number): void {
  const [missing, single, done] = [code.label(), code.label(), code.label()];
  const offset = (packing === 'bf16' ? 32 : 64) * group;
  const [pair, second] = [zmm(unit), zmm(31)];
  code.cmp(r11, 2 * unit + 1);
  code.jumpIf('less', missing);
  emitWords(code, packing, pair, at(rsi, offset), group);
  code.add(rsi, r9);
  code.cmp(r11, 2 * unit + 2);
  code.jumpIf('less', single);
  emitWords(code, packing, second, at(rsi, offset), group);
  code.add(rsi, r9);
  code.shift('vpslld', second, second, 16);
  code.ternary('vpord', pair, pair, second);
  code.place(single);
  code.jump(done);
  code.place(missing);
  code.ternary('vpxord', pair, pair, pair);
  code.place(done);
}

/** One unit of 16 lanes: of one element, or of two, of which the second is 0 where there is none. */
function emitStraightUnit(
  code: Assembler,
  packing: Packing,
  vector: number,
  hasSecond: boolean,
): void {
  const unit = zmm(2 * vector);
  const options = { mask: mask(1 + vector), zero: true };
  if (packing === 'f32') code.binary('vmovups', unit, at(rsi, 64 * vector), options);
  else {
    emitWords(code, packing, unit, at(rsi, (packing === 'bf16' ? 32 : 64) * vector), vector);
    if (hasSecond) {
      const second = zmm(2 * vector + 1);
      emitWords(code, packing, second, at(r10, (packing === 'bf16' ? 32 : 64) * vector), vector);
      code.shift('vpslld', second, second, 16);
      code.ternary('vpord', unit, unit, second);
    }
  }
  code.vstore('vmovups', at(rdi, 64 * vector), unit);
}

/** Sixteen values of bf16, each in the low half of an element. */
function emitWords(
  code: Assembler,
  packing: Packing,
  target: Vector,
  place: ReturnType<typeof at>,
  vector: number,
): void {
  const options = { mask: mask(1 + vector), zero: true };
  if (packing === 'bf16') {
    code.binary('vpmovzxwd', target, place, options);
    return;
  }
  const narrow = ymm(target.index);
  code.binary('vmovups', target, place, options);
  code.binary('vcvtneps2bf16', narrow, target);
  code.binary('vpmovzxwd', target, narrow);
}

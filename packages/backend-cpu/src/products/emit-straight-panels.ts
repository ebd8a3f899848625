import type { Assembler } from '../machine-code/assembler.ts';
import {
  at,
  indexed,
  mask,
  type Memory,
  r10,
  r11,
  r12,
  r13,
  r14,
  r9,
  rax,
  rbx,
  rcx,
  rdi,
  rdx,
  rsi,
  type Vector,
  ymm,
  zmm,
} from '../machine-code/operands.ts';
import { emitTranspose } from './emit-transpose.ts';
import { type Packing, type PanelShape, unitElements } from './product-types.ts';
import { taskField } from './task-layout.ts';

/** Sixteen lanes are one vector. */
const vectorLanes = 16;
/** Units of k that are packed of all panels before the next ones. */
const chunkUnits = 16;
/** The lanes of a vector that is not whole. */
const ofLastVector = mask(3);

/**
 * Packs panels of which the lanes of an element lie together. Some elements are packed of all panels before the next ones: so
 * memory is read along its lines, and not one line of each, for which it would be waited. r12: the source of the first panel.
 * r13: its place.
 */
export function emitStraightPanels(code: Assembler, packing: Packing, shape: PanelShape): void {
  const { lanes, inTiles } = shape;
  const chunkElements = chunkUnits * unitElements(packing);
  const [nextChunk, nextPanel, wholeChunk, wholePanel, done] = [
    code.label(),
    code.label(),
    code.label(),
    code.label(),
    code.label(),
  ];
  if (lanes % vectorLanes !== 0) {
    code.mov(rax, (1 << (lanes % vectorLanes)) - 1);
    code.kmovd(ofLastVector, rax);
  }
  // rdx: elements to come. rcx: bytes to come of each panel. r9: from element to element.
  code.mov(rdx, taskField('pack', 'elements'));
  code.mov(rcx, taskField('pack', 'packedPanelBytes'));
  code.mov(r9, taskField('pack', 'strideBytes'));
  code.place(nextChunk);
  code.cmp(rdx, 1);
  code.jumpIf('less', done);
  // r14: panels to come. r12 and r13: the source and the place of this one's chunk.
  code.mov(r14, taskField('pack', 'panels'));
  code.push(r12);
  code.push(r13);
  code.place(nextPanel);
  code.mov(rbx, lanes);
  code.cmp(r14, 1);
  code.jumpIf('greater', wholePanel);
  code.mov(rbx, taskField('pack', 'lastLanes'));
  code.place(wholePanel);
  code.mov(rax, -1);
  code.bzhi(rax, rax, rbx);
  code.kmovd(mask(1), rax);
  code.kshiftrd(mask(2), mask(1), vectorLanes);
  // r11: elements to come of this chunk.
  code.mov(r11, chunkElements);
  code.cmp(rdx, chunkElements);
  code.jumpIf('notLess', wholeChunk);
  code.mov(r11, rdx);
  code.place(wholeChunk);
  if (inTiles) emitTile(code, packing);
  else emitUnits(code, packing, lanes);
  code.add(r12, taskField('pack', 'panelStepBytes'));
  code.add(r13, taskField('pack', 'packedPanelBytes'));
  code.sub(r14, 1);
  code.jumpIf('notEqual', nextPanel);
  code.pop(r13);
  code.pop(r12);
  const chunkBytes = chunkUnits * (inTiles ? 64 : 4 * lanes);
  code.add(r13, chunkBytes);
  code.sub(rcx, chunkBytes);
  code.mov(rax, chunkElements);
  code.imul(rax, r9);
  code.add(r12, rax);
  code.sub(rdx, chunkElements);
  code.jump(nextChunk);
  code.place(done);
}

function emitUnits(code: Assembler, packing: Packing, lanes: number): void {
  const unitBytes = 4 * lanes;
  const vectors = Math.ceil(lanes / vectorLanes);
  const [loop, last, done] = [code.label(), code.label(), code.label()];
  // rsi: the element. r10: the one behind it. rdi: the place.
  code.mov(rsi, r12);
  code.mov(rdi, r13);
  const count = unitElements(packing);
  code.place(loop);
  code.cmp(r11, count);
  code.jumpIf('less', count === 1 ? done : last);
  if (count === 2) code.lea(r10, indexed(rsi, r9));
  for (let vector = 0; vector < vectors; vector++) {
    emitUnit(code, packing, { lanes, vector, hasSecond: true });
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
      emitUnit(code, packing, { lanes, vector, hasSecond: false });
    }
    code.add(rdi, unitBytes);
  }
  code.place(done);
  if (count === 2) emitZeros(code, unitBytes, vectors);
}

/** From rdi to the end of the panel, which tiles read: there what is no number would make all of their sums NaN. */
function emitZeros(code: Assembler, unitBytes: number, vectors: number): void {
  const [loop, done] = [code.label(), code.label()];
  code.cmp(rdx, 2 * chunkUnits);
  code.jumpIf('greater', done);
  code.lea(rax, indexed(r13, rcx));
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

function emitTile(code: Assembler, packing: Packing): void {
  const [partial, loaded] = [code.label(), code.label()];
  code.mov(rsi, r12);
  code.mov(rdi, r13);
  code.cmp(r11, 2 * vectorLanes);
  code.jumpIf('less', partial);
  for (let unit = 0; unit < vectorLanes; unit++) emitWholeUnit(code, packing, unit);
  code.jump(loaded);
  code.place(partial);
  for (let unit = 0; unit < vectorLanes; unit++) emitUnitOfTile(code, packing, unit);
  code.place(loaded);
  emitTranspose(code, 64);
}

/** Unit `unit` of 16 lanes in the vector of this number, where k has both of its elements. */
function emitWholeUnit(code: Assembler, packing: Packing, unit: number): void {
  const [pair, second] = [zmm(unit), zmm(31 - (unit % 2))];
  emitWords(code, packing, pair, at(rsi), 0);
  emitWords(code, packing, second, indexed(rsi, r9), 0);
  code.lea(rsi, indexed(rsi, r9, 2));
  code.shift('vpslld', second, second, 16);
  code.ternary('vpord', pair, pair, second);
}

/** Unit `unit` of 16 lanes in the vector of this number: 0 where k has come to its end. */
function emitUnitOfTile(code: Assembler, packing: Packing, unit: number): void {
  const [missing, single, done] = [code.label(), code.label(), code.label()];
  const [pair, second] = [zmm(unit), zmm(31)];
  code.cmp(r11, 2 * unit + 1);
  code.jumpIf('less', missing);
  emitWords(code, packing, pair, at(rsi), 0);
  code.add(rsi, r9);
  code.cmp(r11, 2 * unit + 2);
  code.jumpIf('less', single);
  emitWords(code, packing, second, at(rsi), 0);
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
function emitUnit(
  code: Assembler,
  packing: Packing,
  { lanes, vector, hasSecond }: { lanes: number; vector: number; hasSecond: boolean },
): void {
  const unit = zmm(2 * vector);
  const options = { mask: mask(1 + vector), zero: true };
  if (packing === 'f32') code.binary('vmovups', unit, at(rsi, 64 * vector), options);
  else {
    const offset = (packing === 'bf16' ? 32 : 64) * vector;
    emitWords(code, packing, unit, at(rsi, offset), vector);
    if (hasSecond) {
      const second = zmm(2 * vector + 1);
      emitWords(code, packing, second, at(r10, offset), vector);
      code.shift('vpslld', second, second, 16);
      code.ternary('vpord', unit, unit, second);
    }
  }
  // What lies behind a panel may have been packed before.
  const isWhole = (vector + 1) * vectorLanes <= lanes;
  code.vstore('vmovups', at(rdi, 64 * vector), unit, isWhole ? {} : { mask: ofLastVector });
}

/** Sixteen values of bf16, each in the low half of an element. */
function emitWords(
  code: Assembler,
  packing: Packing,
  target: Vector,
  place: Memory,
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

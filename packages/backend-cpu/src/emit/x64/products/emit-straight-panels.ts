import type { Assembler } from '../assembler.ts';
import {
  at,
  indexed,
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
  zmm,
} from '../operands.ts';
import { type PanelShape, unitBytesOf, unitElements } from '../../products/panels.ts';
import type { Vectors } from './vectors/vectors.ts';
import type { ElementPacking } from '../../../program/work/product-kinds.ts';
import { taskField } from './task-fields.ts';

/** The number of units of k in a tile. Each unit has 16 lanes. */
const TILE_UNITS = 16;
/** How many units of k are packed for all panels before the next ones. */
const CHUNK_UNITS = 16;

/**
 * Packs panels whose lanes of an element lie together in memory. A chunk of elements is packed for all panels before
 * the next chunk, so that memory is read in order. One panel after the other would read only one cache line of each
 * element, and wait for it. r12: the source of the first panel. r13: the place where it is packed.
 */
export function emitStraightPanels(
  code: Assembler,
  vectors: Vectors,
  packing: ElementPacking,
  shape: PanelShape,
): void {
  const { lanes, form } = shape;
  const chunkElements = CHUNK_UNITS * unitElements(packing);
  const [nextChunk, nextPanel, wholeChunk, wholePanel, done] = [
    code.label(),
    code.label(),
    code.label(),
    code.label(),
    code.label(),
  ];
  // rdx: the elements that are left. rcx: the bytes that are left of each panel. r9: the bytes from element to element.
  code.mov(rdx, taskField('pack', 'elements'));
  code.mov(rcx, taskField('pack', 'packedPanelBytes'));
  code.mov(r9, taskField('pack', 'strideBytes'));
  code.place(nextChunk);
  code.cmp(rdx, 1);
  code.jumpIf('less', done);
  // r14: the panels that are left. r12 and r13: the source and the place of this panel's chunk.
  code.mov(r14, taskField('pack', 'panels'));
  code.push(r12);
  code.push(r13);
  code.place(nextPanel);
  code.mov(rbx, lanes);
  code.cmp(r14, 1);
  code.jumpIf('greater', wholePanel);
  code.mov(rbx, taskField('pack', 'lastLanes'));
  code.place(wholePanel);
  vectors.beginLanes(rbx, packing, lanes);
  // r11: the elements of this chunk that are left.
  code.mov(r11, chunkElements);
  code.cmp(rdx, chunkElements);
  code.jumpIf('notLess', wholeChunk);
  code.mov(r11, rdx);
  code.place(wholeChunk);
  if (form === 'tiles') emitTile(code, vectors, packing);
  else emitUnits(code, vectors, packing, shape);
  code.add(r12, taskField('pack', 'panelStepBytes'));
  code.add(r13, taskField('pack', 'packedPanelBytes'));
  code.sub(r14, 1);
  code.jumpIf('notEqual', nextPanel);
  code.pop(r13);
  code.pop(r12);
  const chunkBytes = CHUNK_UNITS * (form === 'tiles' ? 64 : unitBytesOf(form) * lanes);
  code.add(r13, chunkBytes);
  code.sub(rcx, chunkBytes);
  code.mov(rax, chunkElements);
  code.imul(rax, r9);
  code.add(r12, rax);
  code.sub(rdx, chunkElements);
  code.jump(nextChunk);
  code.place(done);
}

function emitUnits(
  code: Assembler,
  vectors: Vectors,
  packing: ElementPacking,
  shape: PanelShape,
): void {
  const { lanes, form } = shape;
  const unitBytes = unitBytesOf(form) * lanes;
  const [loop, last, done] = [code.label(), code.label(), code.label()];
  // rsi: the element. r10: the element behind it. rdi: the place where the unit is packed.
  code.mov(rsi, r12);
  code.mov(rdi, r13);
  const count = unitElements(packing);
  code.place(loop);
  code.cmp(r11, count);
  code.jumpIf('less', count === 1 ? done : last);
  if (count === 2) code.lea(r10, indexed(rsi, r9));
  emitUnit(code, vectors, packing, shape, true);
  code.lea(rsi, indexed(rsi, r9, count));
  code.add(rdi, unitBytes);
  code.sub(r11, count);
  code.jump(loop);
  if (count === 2) {
    code.place(last);
    code.cmp(r11, 1);
    code.jumpIf('less', done);
    emitUnit(code, vectors, packing, shape, false);
    code.add(rdi, unitBytes);
  }
  code.place(done);
  if (form === 'pairs') emitZeros(code, vectors, shape);
}

/** Writes zeros from rdi to the end of the panel. Tiles read them, and a NaN there would make all of their sums NaN. */
function emitZeros(code: Assembler, vectors: Vectors, { lanes, form }: PanelShape): void {
  const [loop, done] = [code.label(), code.label()];
  code.cmp(rdx, 2 * CHUNK_UNITS);
  code.jumpIf('greater', done);
  code.lea(rax, indexed(r13, rcx));
  const zero = vectors.vector(0);
  vectors.zero(zero);
  code.place(loop);
  code.cmp(rdi, rax);
  code.jumpIf('notLess', done);
  for (let part = 0; part < lanes / vectors.lanes; part++) {
    code.vstore('vmovups', at(rdi, vectors.byteLength * part), zero);
  }
  code.add(rdi, unitBytesOf(form) * lanes);
  code.jump(loop);
  code.place(done);
}

function emitTile(code: Assembler, vectors: Vectors, packing: ElementPacking): void {
  const [partial, loaded] = [code.label(), code.label()];
  code.mov(rsi, r12);
  code.mov(rdi, r13);
  code.cmp(r11, 2 * TILE_UNITS);
  code.jumpIf('less', partial);
  for (let unit = 0; unit < TILE_UNITS; unit++) emitWholeUnit(code, vectors, packing, unit);
  code.jump(loaded);
  code.place(partial);
  for (let unit = 0; unit < TILE_UNITS; unit++) emitUnitOfTile(code, vectors, packing, unit);
  code.place(loaded);
  vectors.transpose((lane, vector) => code.vstore('vmovups', at(rdi, 64 * lane), vector));
}

/** Loads unit `unit` of 16 lanes into the vector with this number. Both of its elements must exist. */
function emitWholeUnit(
  code: Assembler,
  vectors: Vectors,
  packing: ElementPacking,
  unit: number,
): void {
  const [pair, second] = [zmm(unit), zmm(31 - (unit % 2))];
  code.lea(r10, indexed(rsi, r9));
  vectors.loadLanes(packing, pair, rsi, 0);
  vectors.loadLanes(packing, second, r10, 0);
  code.lea(rsi, indexed(rsi, r9, 2));
  code.shift('vpslld', second, second, 16);
  code.ternary('vpord', pair, pair, second);
}

/** Loads unit `unit` of 16 lanes into the vector with this number. Elements behind the end of k are 0. */
function emitUnitOfTile(
  code: Assembler,
  vectors: Vectors,
  packing: ElementPacking,
  unit: number,
): void {
  const [missing, single, done] = [code.label(), code.label(), code.label()];
  const [pair, second] = [zmm(unit), zmm(31)];
  code.cmp(r11, 2 * unit + 1);
  code.jumpIf('less', missing);
  vectors.loadLanes(packing, pair, rsi, 0);
  code.add(rsi, r9);
  code.cmp(r11, 2 * unit + 2);
  code.jumpIf('less', single);
  vectors.loadLanes(packing, second, rsi, 0);
  code.add(rsi, r9);
  code.shift('vpslld', second, second, 16);
  code.ternary('vpord', pair, pair, second);
  code.place(single);
  code.jump(done);
  code.place(missing);
  vectors.zero(pair);
  code.place(done);
}

/** Packs one unit of all lanes. A unit has one element or two. If the second one does not exist, it is 0. */
function emitUnit(
  code: Assembler,
  vectors: Vectors,
  packing: ElementPacking,
  { lanes, form }: PanelShape,
  hasSecond: boolean,
): void {
  const isPair = unitElements(packing) === 2;
  for (let part = 0; part < Math.ceil(lanes / vectors.lanes); part++) {
    const [unit, second] = [vectors.vector(2 * part), vectors.vector(2 * part + 1)];
    const offset = vectors.byteLength * part;
    const store = (vector: typeof unit, behind = 0): void =>
      vectors.storeLanes(at(rdi, behind + offset), vector, part, lanes);
    vectors.loadLanes(packing, unit, rsi, part);
    if (isPair && hasSecond) {
      vectors.loadLanes(packing, second, r10, part);
      code.shift('vpslld', second, second, 16);
    }
    if (form === 'floats') {
      if (!hasSecond) vectors.zero(second);
      store(second);
      code.shift('vpslld', unit, unit, 16);
      store(unit, 4 * lanes);
    } else {
      if (isPair && hasSecond) code.ternary('vpord', unit, unit, second);
      // The store must not reach behind the panel's lanes: the panel there may have been packed before.
      store(unit);
    }
  }
}

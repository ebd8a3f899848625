import type { Assembler } from '../machine-code/assembler.ts';
import {
  at,
  indexed,
  mask,
  r11,
  r12,
  r13,
  r14,
  r8,
  rax,
  rbx,
  rcx,
  rdi,
  rsp,
  type Vector,
  zmm,
} from '../machine-code/operands.ts';
import { emitTranspose } from './emit-transpose.ts';
import { type Packing, type PanelShape, unitElements } from './product-types.ts';
import { taskField } from './task-layout.ts';

/** Sixteen lanes are one vector, of which each element is a unit. */
const vectorLanes = 16;

/**
 * Packs panels of which the elements of a lane lie together, one after the other. What is written behind the end of a panel lies in
 * the next one, which is packed later. r12: the source of the first panel. r13: its place.
 */
export function emitTransposedPanels(code: Assembler, packing: Packing, shape: PanelShape): void {
  const [next, whole] = [code.label(), code.label()];
  // r14: panels to come. rbx: how many of the lanes there are.
  code.mov(r14, taskField('pack', 'panels'));
  code.place(next);
  code.mov(rbx, shape.lanes);
  code.cmp(r14, 1);
  code.jumpIf('greater', whole);
  code.mov(rbx, taskField('pack', 'lastLanes'));
  code.place(whole);
  emitPanel(code, packing, shape);
  code.add(r12, taskField('pack', 'panelStepBytes'));
  code.add(r13, taskField('pack', 'packedPanelBytes'));
  code.sub(r14, 1);
  code.jumpIf('notEqual', next);
}

function emitPanel(code: Assembler, packing: Packing, shape: PanelShape): void {
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
    emitGroup(code, packing, shape, group);
  }
  code.add(rsp, tableBytes);
}

function emitGroup(
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
  code.mov(rdi, r13);
  code.add(rdi, 64 * group);
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

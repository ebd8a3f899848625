import type { Assembler } from '../assembler.ts';
import {
  at,
  indexed,
  r11,
  r12,
  r13,
  r14,
  r8,
  r9,
  rax,
  rbx,
  rcx,
  rdi,
  rsi,
  rsp,
} from '../operands.ts';
import { type PanelShape, unitBytesOf, unitElements } from '../../products/panels.ts';
import type { Vectors } from './vectors/vectors.ts';
import type { ElementPacking } from '../../../program/work/product-kinds.ts';
import { taskField } from './task-fields.ts';

/**
 * Packs panels whose elements of a lane lie together in memory. The panels are packed one after the other. What is
 * written behind the end of a panel lies in the next one, which is packed later. r12: the source of the first panel.
 * r13: the place where it is packed.
 */
export function emitTransposedPanels(
  code: Assembler,
  vectors: Vectors,
  packing: ElementPacking,
  shape: PanelShape,
): void {
  const [next, whole] = [code.label(), code.label()];
  // r14: the panels that are left. rbx: how many lanes exist. r9: the distance to the next panel.
  code.mov(r14, taskField('pack', 'panels'));
  code.mov(r9, taskField('pack', 'panelStepBytes'));
  code.place(next);
  code.mov(rbx, shape.lanes);
  code.cmp(r14, 1);
  code.jumpIf('greater', whole);
  code.mov(rbx, taskField('pack', 'lastLanes'));
  code.place(whole);
  emitPanel(code, vectors, packing, shape);
  code.add(r12, taskField('pack', 'panelStepBytes'));
  code.add(r13, taskField('pack', 'packedPanelBytes'));
  code.sub(r14, 1);
  code.jumpIf('notEqual', next);
}

function emitPanel(
  code: Assembler,
  vectors: Vectors,
  packing: ElementPacking,
  shape: PanelShape,
): void {
  const groups = Math.ceil(shape.lanes / vectors.lanes);
  const tableBytes = 8 * vectors.lanes * groups;
  code.sub(rsp, tableBytes);
  // The table says where lanes begin. For lanes that do not exist, it repeats the last one that does.
  code.mov(rax, r12);
  code.mov(r8, taskField('pack', 'strideBytes'));
  for (let lane = 0; lane < vectors.lanes * groups; lane++) {
    const isLast = code.label();
    code.store(at(rsp, 8 * lane), rax);
    code.cmp(rbx, lane + 2);
    code.jumpIf('less', isLast);
    code.add(rax, r8);
    code.place(isLast);
  }
  for (let group = 0; group < groups; group++) {
    emitGroup(code, vectors, packing, shape, group);
  }
  code.add(rsp, tableBytes);
}

function emitGroup(
  code: Assembler,
  vectors: Vectors,
  packing: ElementPacking,
  { lanes, form }: PanelShape,
  group: number,
): void {
  const unitBytes = form === 'tiles' ? vectors.byteLength : unitBytesOf(form) * lanes;
  const elements = vectors.lanes * unitElements(packing);
  const elementBytes = packing === 'bf16' ? 2 : 4;
  const [loop, done] = [code.label(), code.label()];
  // rcx: the bytes into each lane. r11: the elements that are left. rdi: the place where they are packed.
  code.xor(rcx, rcx);
  code.mov(r11, taskField('pack', 'elements'));
  code.mov(rdi, r13);
  code.add(rdi, vectors.byteLength * group);
  code.place(loop);
  code.cmp(r11, 1);
  code.jumpIf('less', done);
  vectors.beginUnits(r11, packing);
  for (let lane = 0; lane < vectors.lanes; lane++) {
    code.mov(rsi, at(rsp, 8 * (vectors.lanes * group + lane)));
    code.add(rsi, rcx);
    // Stretches of lanes are too short for a processor to find out by itself what is read next.
    code.prefetch(indexed(rsi, r9));
    vectors.loadUnits(packing, vectors.vector(lane), rsi);
  }
  if (form === 'tiles') {
    // The lanes of a tile keep the order that they have in memory.
    for (let lane = 0; lane < vectors.lanes; lane++) {
      code.vstore('vmovups', at(rdi, vectors.byteLength * lane), vectors.vector(lane));
    }
  } else emitUnits(code, vectors, form, lanes);
  code.add(rcx, elements * elementBytes);
  code.add(rdi, vectors.lanes * unitBytes);
  code.sub(r11, elements);
  code.jump(loop);
  code.place(done);
}

/**
 * Stores the units of the lanes, in order. What a store writes behind a short unit is overwritten by the next store.
 */
function emitUnits(
  code: Assembler,
  vectors: Vectors,
  form: Exclude<PanelShape['form'], 'tiles'>,
  lanes: number,
): void {
  vectors.transpose((unit, vector, spare) => {
    const place = unit * unitBytesOf(form) * lanes;
    if (form !== 'floats') {
      code.vstore('vmovups', at(rdi, place), vector);
      return;
    }
    code.shift('vpslld', spare, vector, 16);
    code.shift('vpsrld', vector, vector, 16);
    code.shift('vpslld', vector, vector, 16);
    code.vstore('vmovups', at(rdi, place), vector);
    code.vstore('vmovups', at(rdi, place + 4 * lanes), spare);
  });
}

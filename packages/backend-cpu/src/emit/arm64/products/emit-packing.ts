import type { ArmAssembler } from '../assembler.ts';
import { type ArmRegister, stack, v, x } from '../operands.ts';
import { ARM_TERMS, copied, emitCopy, frame, loadField, loadOperand } from './task.ts';
import type { Label } from '../../label.ts';
import type { ElementPacking } from '../../../program/work/product-kinds.ts';

/**
 * What a routine packs. With `transposes`, the elements of a lane lie together in memory. Without it, the lanes of an
 * element do.
 */
export interface ArmPanelShape {
  readonly packing: ElementPacking;
  readonly lanes: 8 | 12;
  readonly transposes: boolean;
}

/**
 * The registers of the current block, 4 elements of all lanes: its address, the bytes from one of its rows to the next,
 * and the place where it is packed.
 */
const [source, stride, place] = [x(0), x(1), x(28)];
const scratch = x(2);

/**
 * Writes the routine that packs panels of rows or columns. In f32 panels, the lanes of each element of k lie together.
 * In bf16 panels, every four elements of k of a lane lie together. Incomplete blocks are first copied into zeros on the
 * stack, so that nothing else is read. If k of f32 is not a multiple of 4, some bytes behind the panel are written.
 * They belong to the next panel, which is packed later, or are spare bytes.
 */
export function emitArmPacking(code: ArmAssembler, shape: ArmPanelShape): Label {
  const { packing, lanes, transposes } = shape;
  const bytes = packing === 'bf16' ? 2 : 4;
  const packedBytes = packing === 'f32' ? 4 : 2;
  const blockBytes = ARM_TERMS * lanes * bytes;
  const blockStride = transposes ? ARM_TERMS * bytes : lanes * bytes;
  const [panelSource, panelPlace, panels] = [x(21), x(22), x(23)];
  const [sourceStride, lanesThere, elements, blockSource] = [x(24), x(25), x(26), x(27)];

  const start = code.place();
  code.sub(stack, stack, blockBytes);
  loadField(code, scratch, 'pack', 'operand');
  code.loadIndexed(panelSource, frame, scratch);
  loadField(code, scratch, 'pack', 'byteOffset');
  code.add(panelSource, panelSource, scratch);
  loadOperand(code, panelPlace, 'packed');
  loadField(code, scratch, 'pack', 'packedOffset');
  code.add(panelPlace, panelPlace, scratch);
  loadField(code, panels, 'pack', 'panels');
  loadField(code, sourceStride, 'pack', 'strideBytes');

  const nextPanel = code.place();
  const wholePanel = code.label();
  code.mov(lanesThere, lanes);
  code.cmp(panels, 1);
  code.jumpIf('greater', wholePanel);
  loadField(code, lanesThere, 'pack', 'lastLanes');
  code.place(wholePanel);
  loadField(code, elements, 'pack', 'elements');
  code.mov(blockSource, panelSource);
  code.mov(place, panelPlace);

  const nextBlock = code.place();
  const [partial, ready] = [code.label(), code.label()];
  code.cmp(lanesThere, lanes);
  code.jumpIf('less', partial);
  code.cmp(elements, ARM_TERMS);
  code.jumpIf('less', partial);
  code.mov(source, blockSource);
  code.mov(stride, sourceStride);
  code.jump(ready);
  code.place(partial);
  code.zero(v(0));
  for (let offset = 0; offset < blockBytes; offset += 16) code.move('str q', v(0), stack, offset);
  const [rows, inRow] = transposes
    ? [copied.rows, copied.elements]
    : [copied.elements, copied.rows];
  code.mov(rows, lanesThere);
  code.mov(inRow, ARM_TERMS);
  code.cmp(elements, inRow);
  code.csel(inRow, elements, inRow, 'less');
  code.mov(copied.source, blockSource);
  code.mov(copied.sourceStride, sourceStride);
  code.add(copied.target, stack, 0);
  code.mov(copied.targetStride, blockStride);
  emitCopy(code, bytes);
  code.add(source, stack, 0);
  code.mov(stride, blockStride);
  code.place(ready);
  if (packing === 'f32') {
    if (transposes) emitTransposedFloats(code, lanes);
    else emitStraightFloats(code, lanes);
  } else if (transposes) emitTransposedHalves(code, lanes, packing);
  else emitStraightHalves(code, lanes, packing);
  if (transposes) code.add(blockSource, blockSource, ARM_TERMS * bytes);
  else code.add(blockSource, blockSource, sourceStride, Math.log2(ARM_TERMS));
  code.add(place, place, ARM_TERMS * lanes * packedBytes);
  code.subs(elements, elements, ARM_TERMS);
  code.jumpIf('greater', nextBlock);

  addField(code, panelSource, 'panelStepBytes');
  addField(code, panelPlace, 'packedPanelBytes');
  code.subs(panels, panels, 1);
  code.jumpIf('notEqual', nextPanel);
  code.add(stack, stack, blockBytes);
  code.ret();
  return start;
}

function addField(
  code: ArmAssembler,
  target: ArmRegister,
  field: 'panelStepBytes' | 'packedPanelBytes',
): void {
  loadField(code, scratch, 'pack', field);
  code.add(target, target, scratch);
}

function emitStraightFloats(code: ArmAssembler, lanes: number): void {
  for (let element = 0; element < ARM_TERMS; element++) {
    for (let lane = 0; lane < lanes; lane += 4) {
      const vector = v(lane / 4);
      code.move('ldr q', vector, source, 4 * lane);
      code.move('str q', vector, place, 4 * (element * lanes + lane));
    }
    code.add(source, source, stride);
  }
}

/** The stores interleave four lanes. */
function emitTransposedFloats(code: ArmAssembler, lanes: number): void {
  for (let lane = 0; lane < lanes; lane += 4) {
    for (let row = 0; row < 4; row++) {
      code.move('ldr q', v(row), source);
      code.add(source, source, stride);
    }
    for (let element = 0; element < ARM_TERMS; element++) {
      code.add(scratch, place, 4 * (element * lanes + lane));
      code.st4Element(v(0), element, scratch);
    }
  }
}

/** The stores interleave four elements: first those of eight lanes, and then those of the four lanes behind them. */
function emitStraightHalves(
  code: ArmAssembler,
  lanes: 8 | 12,
  packing: 'bf16' | 'f32 as bf16',
): void {
  for (let element = 0; element < ARM_TERMS; element++) {
    const [eight, four] = [v(element), v(4 + element)];
    if (packing === 'bf16') {
      code.move('ldr q', eight, source);
      if (lanes === 12) code.move('ldr d', four, source, 16);
    } else {
      code.movePair('ldp q', v(8), v(9), source);
      code.binary('bfcvtn', eight, v(8));
      code.binary('bfcvtn2', eight, v(9));
      if (lanes === 12) {
        code.move('ldr q', v(10), source, 32);
        code.binary('bfcvtn', four, v(10));
      }
    }
    code.add(source, source, stride);
  }
  code.st4(v(0), 8, place);
  if (lanes === 12) {
    code.add(scratch, place, 2 * ARM_TERMS * 8);
    code.st4(v(4), 4, scratch);
  }
}

function emitTransposedHalves(
  code: ArmAssembler,
  lanes: number,
  packing: 'bf16' | 'f32 as bf16',
): void {
  for (let lane = 0; lane < lanes; lane++) {
    if (packing === 'bf16') code.move('ldr d', v(0), source);
    else {
      code.move('ldr q', v(1), source);
      code.binary('bfcvtn', v(0), v(1));
    }
    code.move('str d', v(0), place, 2 * ARM_TERMS * lane);
    code.add(source, source, stride);
  }
}

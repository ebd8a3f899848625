import {
  at,
  indexed,
  mask,
  type Memory,
  r13,
  rax,
  rcx,
  rdx,
  type Vector,
  xmm,
} from '../operands.ts';
import { laneBytes } from '../../../lanes/loop-spec.ts';
import { addressIn, callWord, type LoopFrame, type LoopRow, operandAt } from './loop-frame.ts';
import { emitBfloat16 } from './emit-operation.ts';
import type { Left, Spares } from './loop-vectors.ts';
import { callWords } from '../../../lanes/loop-code.ts';

/**
 * Which elements of a row are loaded or stored: those of vector number `vector` behind the current column, or only the
 * elements that are left of it.
 */
export interface Columns {
  readonly row: LoopRow;
  readonly vector: number;
  readonly left: Left | undefined;
}

const first = mask(1);

/** The place of an operand's elements, from the current column on. It may change rax. */
function placeOf(frame: LoopFrame, operand: number, { row, vector }: Columns): Memory {
  const { dtype, access } = operandAt(frame, operand);
  const bytes = laneBytes[dtype];
  const displacement = vector * frame.vectors.lanes * bytes;
  const column = access === 'column' ? rcx : row.column;
  return indexed(addressIn(frame, operand), column, bytes, displacement);
}

export function emitLoad(
  frame: LoopFrame,
  operand: number,
  target: Vector,
  columns: Columns,
): void {
  const { code, scratch } = frame;
  const { dtype } = operandAt(frame, operand);
  const bytes = laneBytes[dtype];
  const place = placeOf(frame, operand, columns);
  const { left } = columns;
  if (left?.kind !== 'left') {
    code.binary(loads[bytes], target, place, left && { mask: left, zero: true });
  } else if (bytes === 4) {
    code.binary('vmovups', target, left.lanes);
    code.ternary('vmaskmovps', target, target, place);
  } else {
    // Only elements of 4 bytes are loaded under a mask.
    code.lea(r13, place);
    code.ternary('vxorps', target, target, target);
    code.vstore('vmovups', scratch, target);
    eachLeft(frame, left, () => {
      const [from, to] = [indexed(r13, rax, bytes), scratchAt(frame, bytes)];
      if (bytes === 2) {
        code.load16(rdx, from);
        code.store16(to, rdx);
      } else {
        code.load8(rdx, from);
        code.store8(to, rdx);
      }
    });
    code.binary(loads[bytes], target, scratch);
  }
  if (dtype === 'bool') asLanes(frame, target);
}

/**
 * Visits the elements that are left, from the last to the first. rax is the index of the element. `visit` may change
 * rdx.
 */
function eachLeft(
  { code }: LoopFrame,
  { count }: Extract<Left, { kind: 'left' }>,
  visit: () => void,
): void {
  const [next, done] = [code.label(), code.label()];
  code.mov(rax, count);
  code.place(next);
  code.sub(rax, 1);
  code.jumpIf('less', done);
  visit();
  code.jump(next);
  code.place(done);
  code.mov(rdx, callWord(callWords.columns));
}

/** The element of the scratch memory whose index is in rax. */
function scratchAt({ scratch }: LoopFrame, bytes: 1 | 2): Memory {
  return { ...scratch, index: rax, scale: bytes };
}

/** Loads the operand's element for this row, or its only element, into all lanes. Changes r13. */
export function emitLoadOne(
  frame: LoopFrame,
  operand: number,
  target: Vector,
  { number }: LoopRow,
): void {
  const { code, scratch } = frame;
  const { dtype, access, elementOffset } = operandAt(frame, operand);
  const bytes = laneBytes[dtype];
  const element = access === 'row' ? number : elementOffset;
  const place = at(addressIn(frame, operand), bytes * element);
  if (bytes === 4) code.binary('vbroadcastss', target, place);
  else if (frame.vectors.instructions === 'AVX-512') {
    code.mov(r13, 1);
    code.kmovd(first, r13);
    code.binary(loads[bytes], target, place, { mask: first, zero: true });
    code.binary('vbroadcastss', target, target);
  } else {
    if (bytes === 2) code.load16(r13, place);
    else code.load8(r13, place);
    code.store32(scratch, r13);
    code.binary('vbroadcastss', target, scratch);
  }
  if (dtype === 'bool') asLanes(frame, target);
}

/** Turns the bytes of a bool, 0 or not, into lanes with all bits set or none. */
function asLanes({ code, pool, vectors }: LoopFrame, target: Vector): void {
  const { memory, broadcast } = pool.constant(0);
  if (vectors.instructions === 'AVX-512') {
    code.ternaryWith('vpcmpd', first, target, memory, 4, { broadcast });
    code.vpmovm2d(target, first);
  } else code.ternary('vpcmpgtd', target, target, memory);
}

export function emitStore(
  frame: LoopFrame,
  operand: number,
  value: Vector,
  spares: Spares,
  columns: Columns,
): void {
  const { code, pool, vectors } = frame;
  const { dtype } = operandAt(frame, operand);
  const bytes = laneBytes[dtype];
  const { left } = columns;
  if (vectors.instructions === 'AVX2') {
    if (bytes === 4) storeFloats(frame, placeOf(frame, operand, columns), value, spares, left);
    else {
      const [packed] = spares;
      const bits = dtype === 'bool' ? 1 : bytes === 1 ? 0xff : 0xffff;
      code.ternary('vandps', packed, value, pool.constant(bits).memory);
      pack(frame, packed, bytes);
      storePacked(frame, placeOf(frame, operand, columns), packed, bytes, left);
    }
    return;
  }
  const [spare] = spares;
  const isBool = dtype === 'bool';
  const { memory, broadcast } = pool.constant(1);
  if (isBool) code.ternary('vpandd', spare, value, memory, { broadcast });
  const place = placeOf(frame, operand, columns);
  const options = left?.kind === 'mask' ? { mask: left } : undefined;
  code.vstore(stores[bytes], place, isBool ? spare : value, options);
}

/** Rounds f32 values to bf16 and stores them. Only processors that have an instruction for this need it. */
export function emitRoundedStore(
  frame: LoopFrame,
  operand: number,
  value: Vector,
  [spare]: Spares,
  columns: Columns,
): void {
  const { code, pool, vectors, aside } = frame;
  const place = placeOf(frame, operand, columns);
  const { left } = columns;
  const options = left?.kind === 'mask' ? { mask: left } : undefined;
  const writers = {
    code,
    vectors,
    constant: (bits: number) => pool.constant(bits),
    aside: (write: () => void) => aside.push(write),
  };
  emitBfloat16(writers, value, spare, {
    halves: (half) => code.vstore('vmovdqu16', place, half, options),
    lanes: () => code.vstore('vpmovdw', place, spare, options),
  });
}

function storeFloats(
  { code }: LoopFrame,
  place: Memory,
  value: Vector,
  [lanes]: Spares,
  left: Left | undefined,
): void {
  if (left?.kind === 'left') {
    code.binary('vmovups', lanes, left.lanes);
    code.maskedStore('vmaskmovps', place, lanes, value);
  } else code.vstore('vmovups', place, value);
}

/** Packs the elements of a vector at its beginning. Each element has no more bits than `bytes` bytes. */
function pack({ code }: LoopFrame, vector: Vector, bytes: 1 | 2): void {
  code.ternary('vpackusdw', vector, vector, vector);
  code.binaryWith('vpermq', vector, vector, 0x08);
  if (bytes === 1) code.ternary('vpackuswb', vector, vector, vector);
}

function storePacked(
  frame: LoopFrame,
  place: Memory,
  packed: Vector,
  bytes: 1 | 2,
  left: Left | undefined,
): void {
  const { code, scratch } = frame;
  const half = xmm(packed.index);
  if (left?.kind !== 'left') {
    code.vstore(bytes === 2 ? 'vmovups' : 'vmovlps', place, half);
    return;
  }
  code.lea(r13, place);
  code.vstore('vmovups', scratch, half);
  eachLeft(frame, left, () => {
    const [from, to] = [scratchAt(frame, bytes), indexed(r13, rax, bytes)];
    if (bytes === 2) {
      code.load16(rdx, from);
      code.store16(to, rdx);
    } else {
      code.load8(rdx, from);
      code.store8(to, rdx);
    }
  });
}

const loads = { 1: 'vpmovzxbd', 2: 'vpmovzxwd', 4: 'vmovups' } as const;
const stores = { 1: 'vpmovdb', 2: 'vpmovdw', 4: 'vmovups' } as const;

/** Writes the flat indices of the vector's elements to the target. */
export function emitIndex(frame: LoopFrame, target: Vector, { vector }: Columns): void {
  const { code, pool, rowStart, vectors } = frame;
  code.mov(rax, rowStart);
  code.add(rax, rcx);
  code.add(rax, vector * vectors.lanes);
  emitInteger(frame, target);
  code.ternary('vpaddd', target, target, pool.laneNumbers);
}

/** Writes the low 32 bits of rax to all lanes. */
export function emitInteger({ code, vectors, scratch }: LoopFrame, target: Vector): void {
  if (vectors.instructions === 'AVX-512') code.vpbroadcastd(target, rax);
  else {
    code.store32(scratch, rax);
    code.binary('vbroadcastss', target, scratch);
  }
}

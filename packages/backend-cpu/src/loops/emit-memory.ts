import {
  indexed,
  type Mask,
  mask,
  at,
  r13,
  rax,
  rcx,
  type Vector,
} from '../machine-code/operands.ts';
import { laneBytes } from '../wasm/loop-spec.ts';
import type { Source } from './emit-operation.ts';
import { addressIn, LANES, type LoopFrame, operandAt } from './loop-frame.ts';

/** What of a row is loaded or stored: a whole vector behind the column, or with `mask` a part of it. */
export interface Columns {
  readonly vector: number;
  readonly mask: Mask | undefined;
}

const first = mask(1);

export function emitLoad(
  frame: LoopFrame,
  operand: number,
  target: Vector,
  { vector, mask: columns }: Columns,
): void {
  const { code } = frame;
  const { dtype } = operandAt(frame, operand);
  const bytes = laneBytes[dtype];
  const place = indexed(addressIn(frame, operand), rcx, bytes, vector * LANES * bytes);
  code.binary(loads[bytes], target, place, columns && { mask: columns, zero: true });
  if (dtype === 'bool') asLanes(frame, target);
}

/** The element of a row, or the only one, in all lanes. r13 is another one then. */
export function emitLoadOne(frame: LoopFrame, operand: number, target: Vector): void {
  const { code } = frame;
  const { dtype, elementOffset } = operandAt(frame, operand);
  const bytes = laneBytes[dtype];
  const place = at(addressIn(frame, operand), bytes * elementOffset);
  if (bytes === 4) code.binary('vbroadcastss', target, place);
  else {
    code.mov(r13, 1);
    code.kmovd(first, r13);
    code.binary(loads[bytes], target, place, { mask: first, zero: true });
    code.binary('vbroadcastss', target, target);
  }
  if (dtype === 'bool') asLanes(frame, target);
}

/** Values of a bool are all bits of a lane, or none, and bytes of memory that are 0 or not. */
function asLanes({ code, pool }: LoopFrame, target: Vector): void {
  const zero = pool.constant(0);
  if (zero.kind !== 'memory') return;
  code.ternaryWith('vpcmpd', first, target, zero.memory, 4, { broadcast: true });
  code.vpmovm2d(target, first);
}

export function emitStore(
  frame: LoopFrame,
  operand: number,
  value: Vector,
  spare: Vector,
  { vector, mask: columns }: Columns,
): void {
  const { code, pool } = frame;
  const { dtype } = operandAt(frame, operand);
  const bytes = laneBytes[dtype];
  const one: Source = pool.constant(1);
  const isBool = dtype === 'bool' && one.kind === 'memory';
  if (isBool) code.ternary('vpandd', spare, value, one.memory, { broadcast: true });
  const place = indexed(addressIn(frame, operand), rcx, bytes, vector * LANES * bytes);
  code.vstore(stores[bytes], place, isBool ? spare : value, columns && { mask: columns });
}

const loads = { 1: 'vpmovzxbd', 2: 'vpmovzxwd', 4: 'vmovups' } as const;
const stores = { 1: 'vpmovdb', 2: 'vpmovdw', 4: 'vmovups' } as const;

/** The flat indices of the elements. */
export function emitIndex(
  { code, pool, rowStart }: LoopFrame,
  target: Vector,
  { vector }: Columns,
): void {
  code.mov(rax, rowStart);
  code.add(rax, rcx);
  code.add(rax, vector * LANES);
  code.vpbroadcastd(target, rax);
  code.ternary('vpaddd', target, target, pool.laneNumbers);
}

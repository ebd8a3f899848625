import type { Code } from '@shardwise/wasm-assembler';
import type { Assembler } from '../machine-code/assembler.ts';
import type { Label } from '../machine-code/code.ts';
import { at, indexed, r12, r13, r14, rax, rbx, rdx, rsp } from '../machine-code/operands.ts';
import { laneBytes } from '../wasm/loop-spec.ts';
import { emitPass } from './emit-pass.ts';
import { LaneGraph } from './lane-graph.ts';
import type { LaneLoop } from './lane-loop.ts';
import {
  addressIn,
  advance,
  callWord,
  callWords,
  createFrame,
  loadAddresses,
  type LoopFrame,
} from './loop-frame.ts';
import { emitInteger } from './emit-memory.ts';
import type { LoopVectors } from './loop-vectors.ts';
import { keepUniform } from './uniform.ts';
import { mostSlots } from './vector-registers.ts';

/**
 * Writes the routine of a loop. When it is called, rbp points to the words of the call (loop-frame.ts). It may change
 * all registers but rsp, rbp and r15. Throws NoLanesError.
 */
export function emitLoop(code: Assembler, loop: LaneLoop, vectors: LoopVectors): Label {
  const frame = createFrame(code, loop, vectors);
  const start = code.entry();
  code.mov(r14, rsp);
  code.and(rsp, -64);
  code.sub(rsp, 64 * mostSlots);
  code.addressOf(rbx, frame.pool.label);
  code.mov(r12, callWord(callWords.rows));
  code.mov(rdx, callWord(callWords.columns));
  loadAddresses(frame);
  keepColumns(frame);
  code.mov(rax, callWord(callWords.firstIndex));
  code.store(frame.rowStart, rax);
  for (const pass of loop.before) emitPass(frame, pass);
  const [rows, end] = [code.label(), code.label()];
  code.cmp(r12, 0);
  code.jumpIf('equal', end);
  code.place(rows);
  for (const pass of loop.passes) emitPass(frame, pass);
  for (const { operand, value } of loop.ofRow ?? []) storeOfRow(frame, operand, value);
  nextRow(frame);
  code.sub(r12, 1);
  code.jumpIf('greater', rows);
  code.place(end);
  code.mov(rsp, r14);
  code.ret();
  code.entry(frame.pool.label);
  code.int32s(frame.pool.numbers);
  return start;
}

function keepColumns(frame: LoopFrame): void {
  const { code, loop, kept, slots, vectors } = frame;
  const input = loop.inputs.findIndex(({ kind }) => kind === 'columns');
  if (input < 0) return;
  const place = slots.take();
  const columns = vectors.vector(0);
  code.mov(rax, rdx);
  emitInteger(frame, columns);
  code.binary('vcvtdq2ps', columns, columns);
  code.vstore('vmovups', place, columns);
  kept.set(input, place);
}

/** Stores one f32 value for a row: the first lane of a value that is the same in all lanes. */
function storeOfRow(frame: LoopFrame, operand: number, value: Code<'v128'>): void {
  const { code } = frame;
  const graph = new LaneGraph();
  const node = graph.add(value);
  const home = keepUniform(frame, graph, new Set(), [{ node }]).get(node);
  if (home?.kind !== 'memory') throw new RangeError('a row has no such value');
  code.mov(r13, home.memory);
  code.store32(at(addressIn(frame, operand)), r13);
}

function nextRow(frame: LoopFrame): void {
  const { code, loop, rowStart } = frame;
  for (const [operand, { access, dtype }] of loop.operands.entries()) {
    const bytes = laneBytes[dtype];
    if (access === 'element') advance(frame, operand, (from) => indexed(from, rdx, bytes));
    if (access === 'row') advance(frame, operand, (from) => at(from, bytes));
  }
  code.add(rdx, rowStart);
  code.store(rowStart, rdx);
  code.mov(rdx, callWord(callWords.columns));
}

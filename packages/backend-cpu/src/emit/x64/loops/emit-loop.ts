import type { Code } from '@shardwise/wasm-assembler';
import type { Assembler } from '../assembler.ts';
import { at, indexed, r13, r14, rax, rbx, rcx, rdx, rsp } from '../operands.ts';
import { laneBytes } from '../../../lanes/loop-spec.ts';
import { emitPass } from './emit-pass.ts';
import { LaneGraph } from './lane-graph.ts';
import type { LaneLoop, LanePass } from '../../../lanes/lane-loop.ts';
import {
  addressIn,
  advance,
  callWord,
  createFrame,
  loadAddresses,
  type LoopFrame,
  type LoopRow,
  loopRows,
} from './loop-frame.ts';
import { emitInteger } from './emit-memory.ts';
import type { LoopVectors } from './loop-vectors.ts';
import { keepUniform } from './uniform.ts';
import { MAX_SLOTS } from './vector-registers.ts';
import type { Label } from '../../label.ts';
import { callWords } from '../../../lanes/loop-code.ts';

/**
 * Writes the routine of a loop, which walks over two rows at a time or over one. When it is called, rbp points to the
 * words of the call (loop-frame.ts). It may change all registers but rsp, rbp and r15. Throws NoLanesError.
 */
export function emitLoop(
  code: Assembler,
  loop: LaneLoop,
  vectors: LoopVectors,
  rowsAtOnce: 1 | 2,
): Label {
  const frame = createFrame(code, loop, vectors);
  const start = code.entry();
  code.mov(r14, rsp);
  code.and(rsp, -64);
  code.sub(rsp, 64 * MAX_SLOTS);
  code.addressOf(rbx, frame.pool.label);
  code.mov(rax, callWord(callWords.rows));
  code.store(frame.rowsLeft, rax);
  code.mov(rdx, callWord(callWords.columns));
  loadAddresses(frame);
  keepColumns(frame);
  code.mov(rax, callWord(callWords.firstIndex));
  code.store(frame.rowStart, rax);
  const before: LoopRow = { number: 0, column: rcx, kept: frame.kept };
  for (const pass of loop.before) emitPass(frame, [before], pass);
  if (rowsAtOnce === 2) eachRows(frame, 2);
  eachRows(frame, 1);
  code.mov(rsp, r14);
  code.ret();
  for (const write of frame.aside) write();
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

/**
 * Whether a loop gains from walking over two rows at a time, and computes the same. Each fold ends with a chain of
 * operations that wait for each other, and the chains of two rows overlap. AVX2 has too few registers for this, and
 * only the first row knows its flat indices. A column that a pass stores and another pass reads may belong to one row
 * only.
 */
export function canPairRows(loop: LaneLoop, { instructions }: LoopVectors): boolean {
  if (instructions !== 'AVX-512' || loop.inputs.some(({ kind }) => kind === 'index')) return false;
  if (loop.passes.every(({ folds }) => folds.length === 0)) return false;
  const used = loop.passes.map((pass) => operandsOf(loop, pass));
  return loop.operands.every(({ access }, operand) => {
    const isStored = loop.passes.some(({ stores }) => stores.some((to) => to.operand === operand));
    return access !== 'column' || !isStored || used.filter((of) => of.has(operand)).length === 1;
  });
}

/** The operands that a pass reads or stores. */
function operandsOf({ inputs }: LaneLoop, { stores, folds }: LanePass): ReadonlySet<number> {
  const graph = new LaneGraph();
  for (const { value } of stores) graph.add(value);
  for (const { term } of folds) graph.add(term);
  const read = graph.nodes.flatMap((node) => {
    const input = node.kind === 'input' ? inputs[node.input] : undefined;
    return input?.kind === 'operand' ? [input.operand] : [];
  });
  return new Set([...read, ...stores.map(({ operand }) => operand)]);
}

/** Writes the loop over this many rows at a time. Fewer rows are left behind it. */
function eachRows(frame: LoopFrame, count: 1 | 2): void {
  const { code, loop, rowsLeft } = frame;
  const [next, end] = [code.label(), code.label()];
  code.mov(rax, rowsLeft);
  code.sub(rax, count);
  code.jumpIf('less', end);
  code.place(next);
  code.store(rowsLeft, rax);
  const rows = loopRows(frame, count);
  for (const pass of loop.passes) emitPass(frame, rows, pass);
  for (const row of rows) {
    for (const { operand, value } of loop.ofRow ?? []) storeOfRow(frame, row, operand, value);
  }
  nextRows(frame, count);
  code.mov(rax, rowsLeft);
  code.sub(rax, count);
  code.jumpIf('notLess', next);
  code.place(end);
}

/** Stores one f32 value for a row: the first lane of a value that is the same in all lanes. */
function storeOfRow(frame: LoopFrame, row: LoopRow, operand: number, value: Code<'v128'>): void {
  const { code } = frame;
  const graph = new LaneGraph();
  const node = graph.add(value);
  const home = keepUniform(frame, row, graph, new Set(), [{ node }]).get(node);
  if (home?.kind !== 'memory') throw new RangeError('a row has no such value');
  code.mov(r13, home.memory);
  code.store32(at(addressIn(frame, operand), 4 * row.number), r13);
}

function nextRows(frame: LoopFrame, count: 1 | 2): void {
  const { code, loop, rowStart } = frame;
  if (count === 2) code.add(rdx, rdx);
  for (const [operand, { access, dtype }] of loop.operands.entries()) {
    const bytes = laneBytes[dtype];
    if (access === 'element') advance(frame, operand, (from) => indexed(from, rdx, bytes));
    if (access === 'row') advance(frame, operand, (from) => at(from, count * bytes));
  }
  code.add(rdx, rowStart);
  code.store(rowStart, rdx);
  code.mov(rdx, callWord(callWords.columns));
}

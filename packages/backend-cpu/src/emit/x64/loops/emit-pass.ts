import { at, mask, r13, rax, rcx, rdx, type Memory, type Vector } from '../operands.ts';
import { emitBody, type Body, type RowInPass } from './emit-body.ts';
import { LaneGraph } from './lane-graph.ts';
import type { Fold } from '../../../lanes/rows.ts';
import type { LanePass } from '../../../lanes/lane-loop.ts';
import type { LoopFrame, LoopRow } from './loop-frame.ts';
import { LANES, type Left } from './loop-vectors.ts';
import { keepUniform, varyingNodes } from './uniform.ts';

/**
 * The largest unrolled body, in nodes. Unrolling only saves loop overhead, because long bodies overlap by out-of-order
 * execution anyway.
 */
const UNROLLED_NODES = 24;
const MAX_UNROLL = 4;

/**
 * Writes a pass over the rows that the loop is at. A pass with folds walks over all of them together. Any other pass
 * walks over one after the other, because memory is read faster from fewer places at once.
 */
export function emitPass(frame: LoopFrame, atRows: readonly LoopRow[], pass: LanePass): void {
  const { code } = frame;
  const graph = new LaneGraph();
  const stores = pass.stores.map(({ operand, value }) => ({ operand, node: graph.add(value) }));
  const folds = pass.folds.map(({ fold, term }) => ({ fold, node: graph.add(term) }));
  const varying = varyingNodes(frame, graph);
  const { lanes } = frame.vectors;
  const least = LANES / lanes;
  const unroll = least * unrollOf(folds.length, graph.nodes.length);
  const { registers, instructions } = frame.vectors;
  const isInRegisters = instructions === 'AVX-512' || folds.length * unroll <= registers / 2;
  const rows = atRows.map((row): RowInPass => ({
    row,
    homes: keepUniform(frame, row, graph, varying, [...stores, ...folds]),
    sums: folds.map((_, fold) =>
      isInRegisters
        ? accumulators(frame, row.number * folds.length + fold, unroll)
        : Array.from({ length: unroll }, () => frame.slots.take()),
    ),
  }));
  for (const { sums } of rows) {
    folds.forEach(({ fold }, index) => clear(frame, fold, sums[index] ?? []));
  }
  for (const together of folds.length > 0 ? [rows] : rows.map((row) => [row])) {
    emitWalk({ frame, graph, varying, rows: together, stores, folds }, [unroll, least]);
  }
  for (const { row, sums } of rows) {
    pass.folds.forEach(({ fold, input }, index) => {
      const place = frame.slots.take();
      code.vstore('vmovups', place, across(frame, fold, inRegisters(frame, sums[index] ?? [])));
      row.kept.set(input, place);
    });
  }
}

/**
 * Writes one walk over the columns of rows: `unroll` vectors of each at once, then `least` vectors, and then the
 * elements that are left, under a mask. Which sum an element is added to depends on its column alone, so that zeros
 * behind the others do not change a sum. To this end, the sums move on behind each step of `least` vectors. `across`
 * adds sums that are opposite to each other, which they stay.
 */
function emitWalk(body: Body, [unroll, least]: readonly [unroll: number, least: number]): void {
  const { frame, rows } = body;
  const { code } = frame;
  code.xor(rcx, rcx);
  for (const { row } of rows) if (row.number > 0) code.mov(row.column, rdx);
  for (const vectors of new Set([unroll, least])) {
    eachVectors(body, vectors, () => {
      if (vectors === unroll) return;
      for (const sums of rows.flatMap((row) => row.sums)) emitMove(frame, sums, least);
    });
  }
  const end = code.label();
  code.mov(rax, rdx);
  code.sub(rax, rcx);
  code.jumpIf('equal', end);
  emitBody(body, least, whatIsLeft(frame));
  code.place(end);
}

/**
 * How often the body is unrolled. Folds have several sums, because the latency of an addition is longer than the time
 * until the next one can start.
 */
function unrollOf(folds: number, nodes: number): number {
  if (folds > 0) return folds > 1 ? 2 : MAX_UNROLL;
  const fitting = 2 ** Math.floor(Math.log2(Math.max(UNROLLED_NODES / nodes, 1)));
  return Math.min(fitting, MAX_UNROLL);
}

/** The registers of sums, from the last vector register on. The body does not use them for anything else. */
function accumulators({ vectors }: LoopFrame, number: number, unroll: number): readonly Vector[] {
  const last = vectors.registers - 1 - number * unroll;
  return Array.from({ length: unroll }, (_, vector) => vectors.vector(last - vector));
}

/**
 * Writes code that finds out which elements are left at the end of a row. rax is their number, which is less than what
 * the vectors of one body hold. Changes rax, r13 and the first vector register.
 */
function whatIsLeft({ code, vectors, pool, slots }: LoopFrame): readonly Left[] {
  if (vectors.instructions === 'AVX-512') {
    code.mov(r13, -1);
    code.bzhi(r13, r13, rax);
    code.kmovd(mask(7), r13);
    return [mask(7)];
  }
  const first = vectors.vector(0);
  const parts = [0, 1].map(() => ({
    kind: 'left' as const,
    lanes: slots.take(),
    count: slots.take(),
  }));
  for (const [part, { count }] of parts.entries()) {
    const fits = code.label();
    code.mov(r13, rax);
    code.sub(r13, part * vectors.lanes);
    code.cmp(r13, vectors.lanes);
    code.jumpIf('less', fits);
    code.mov(r13, vectors.lanes);
    code.place(fits);
    code.store(count, r13);
  }
  // Lanes with all bits set lie in front of lanes without bits. A vector that begins n lanes before the latter has n
  // lanes set.
  code.lea(r13, pool.behindAllLanes);
  code.shl(rax, 2);
  code.sub(r13, rax);
  for (const [part, { lanes }] of parts.entries()) {
    code.binary('vmovups', first, at(r13, part * first.byteLength));
    code.vstore('vmovups', lanes, first);
  }
  return parts;
}

/** Writes moves by which each place gets the sum that lies `step` places behind it, and the last ones get the first ones. */
function emitMove(
  { code, vectors }: LoopFrame,
  sums: readonly (Vector | Memory)[],
  step: number,
): void {
  const [kept, moved] = [vectors.vector(0), vectors.vector(1)];
  const move = (to: Vector | Memory, from: Vector | Memory): void => {
    if (to.kind === 'vector') code.binary('vmovups', to, from);
    else if (from.kind === 'vector') code.vstore('vmovups', to, from);
    else {
      code.binary('vmovups', moved, from);
      code.vstore('vmovups', to, moved);
    }
  };
  for (const first of sums.slice(0, step).keys()) {
    const places = sums.filter((_, index) => index % step === first);
    const [begin, ...others] = places;
    if (begin === undefined) continue;
    move(kept, begin);
    for (const [index, next] of [...others, kept].entries()) move(places[index] ?? begin, next);
  }
}

/** Writes a loop over this many vectors at once, with what `behind` writes behind them. */
function eachVectors(body: Body, vectors: number, behind: () => void): void {
  const { code, vectors: of } = body.frame;
  const { lanes } = of;
  const [next, end] = [code.label(), code.label()];
  code.mov(r13, rdx);
  code.sub(r13, lanes * vectors);
  code.cmp(rcx, r13);
  code.jumpIf('greater', end);
  code.entry(next);
  emitBody(body, vectors);
  behind();
  const columns = new Set([rcx, ...body.rows.map(({ row }) => row.column)]);
  for (const column of columns) code.add(column, lanes * vectors);
  code.cmp(r13, rcx);
  code.jumpIf('notLess', next);
  code.place(end);
}

function clear(frame: LoopFrame, fold: Fold, sums: readonly (Vector | Memory)[]): void {
  const { code, pool, vectors } = frame;
  const lowest = pool.constant(-0x800000);
  for (const sum of sums) {
    const first = sum.kind === 'vector' ? sum : vectors.vector(0);
    if (fold === 'sum') code.ternary('vxorps', first, first, first);
    else code.binary('vbroadcastss', first, lowest.memory);
    if (sum.kind === 'memory') code.vstore('vmovups', sum, first);
  }
}

/** Loads sums into registers. This comes behind the body, which no longer needs the registers. */
function inRegisters(
  { code, vectors }: LoopFrame,
  sums: readonly (Vector | Memory)[],
): readonly Vector[] {
  return sums.map((sum, index) => {
    if (sum.kind === 'vector') return sum;
    const register = vectors.vector(vectors.registers - 1 - index);
    code.binary('vmovups', register, sum);
    return register;
  });
}

/** The sum or the maximum of all lanes of the vectors, in all lanes of the result. */
function across({ code, vectors }: LoopFrame, fold: Fold, sums: readonly Vector[]): Vector {
  const combine = (a: Vector, b: Vector): void => {
    if (fold === 'sum') code.ternary('vaddps', a, a, b);
    else code.ternary('vmaxps', a, b, a);
  };
  for (let half = sums.length / 2; half >= 1; half /= 2) {
    for (const [index, low] of sums.slice(0, half).entries()) {
      combine(low, sums[half + index] ?? low);
    }
  }
  const other = vectors.vector(0);
  const [value = other] = sums;
  if (vectors.instructions === 'AVX-512') {
    for (const order of [0x4e, 0xb1]) {
      code.ternaryWith('vshuff32x4', other, value, value, order);
      combine(value, other);
    }
  } else {
    code.ternaryWith('vperm2f128', other, value, value, 1);
    combine(value, other);
  }
  for (const order of [0x4e, 0xb1]) {
    code.binaryWith('vpermilps', other, value, order);
    combine(value, other);
  }
  return value;
}
